/*
 * libsmb2: connect, list shares, make, write, flush, read, rename, list, truncate and remove files and directories.
 *
 * Arguments: the share, and `signed` or `sealed`. The environment specifies the port and the user's name and password.
 * The exit status is 0 if every step succeeds.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <smb2/smb2.h>
#include <smb2/libsmb2.h>
#include <smb2/libsmb2-raw.h>
#include <smb2/libsmb2-dcerpc-srvsvc.h>

/* Needs several WRITEs and READs, even if the server accepts 8 MiB in each. Not a multiple of a buffer size. */
#define LENGTH (10 * 1024 * 1024 + 12345)
/* Number of short files: more than fit into one QUERY_DIRECTORY response. */
#define FILES 500

#define STATUS_LOGON_FAILURE ((int)0xC000006D)

static const char *mode;

static void fail(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	exit(1);
}

static struct smb2_context *context(const char *password)
{
	struct smb2_context *smb2 = smb2_init_context();

	if (smb2 == NULL)
		fail("no context");
	smb2_set_timeout(smb2, 60);
	smb2_set_version(smb2, SMB2_VERSION_ANY3);
	smb2_set_user(smb2, getenv("SERVER_USER"));
	smb2_set_password(smb2, password);
	smb2_set_security_mode(smb2, SMB2_NEGOTIATE_SIGNING_ENABLED);
	if (strcmp(mode, "sealed") == 0)
		smb2_set_seal(smb2, 1);
	else if (strcmp(mode, "signed") == 0)
		smb2_set_sign(smb2, 1);
	else
		fail("%s is neither signed nor sealed", mode);
	return smb2;
}

static int connect_share(struct smb2_context *smb2, const char *share)
{
	char server[64];

	snprintf(server, sizeof(server), "127.0.0.1:%s", getenv("SERVER_PORT"));
	return smb2_connect_share(smb2, server, share, getenv("SERVER_USER"));
}

static void done(struct smb2_context *smb2, int result, const char *what)
{
	if (result < 0)
		fail("%s: %s (%s)", what, smb2_get_error(smb2), strerror(-result));
}

static void wrong_password(const char *share)
{
	struct smb2_context *smb2 = context("wrong");

	if (connect_share(smb2, share) == 0)
		fail("a wrong password logs on");
	if (smb2_get_nterror(smb2) != STATUS_LOGON_FAILURE)
		fail("a wrong password gives %x: %s", smb2_get_nterror(smb2), smb2_get_error(smb2));
	smb2_destroy_context(smb2);
}

struct listing {
	int over;
	int shares;
	int found;
	const char *name;
};

static void listed(struct smb2_context *smb2, int status, void *data, void *private_data)
{
	struct listing *listing = private_data;
	struct srvsvc_NetrShareEnum_rep *answer = data;
	struct srvsvc_SHARE_INFO_1_CONTAINER *shares;
	uint32_t i;

	listing->over = 1;
	if (status != 0)
		fail("listing the shares: %s", smb2_get_error(smb2));
	shares = &answer->ses.ShareInfo.Level1;
	listing->shares = shares->EntriesRead;
	for (i = 0; i < shares->EntriesRead; i++)
		listing->found += strcmp(shares->Buffer->share_info_1[i].netname.utf8, listing->name) == 0;
	smb2_free_data(smb2, answer);
}

static void list_shares(const char *share)
{
	struct smb2_context *smb2 = context(getenv("SERVER_PASSWORD"));
	struct listing listing = { 0, 0, 0, share };

	done(smb2, connect_share(smb2, "IPC$"), "IPC$");
	done(smb2, smb2_share_enum_async(smb2, SHARE_INFO_1, listed, &listing), "listing the shares");
	while (!listing.over) {
		struct pollfd ready = { smb2_get_fd(smb2), (short)smb2_which_events(smb2), 0 };

		if (poll(&ready, 1, 60000) <= 0)
			fail("no list of shares after a minute");
		if (smb2_service(smb2, ready.revents) < 0)
			fail("listing the shares: %s", smb2_get_error(smb2));
	}
	if (listing.found != 1)
		fail("%s is named %d times in a list of %d shares", share, listing.found, listing.shares);
	printf("%d shares\n", listing.shares);
	smb2_disconnect_share(smb2);
	smb2_destroy_context(smb2);
}

static void write_all(struct smb2_context *smb2, struct smb2fh *file, const uint8_t *bytes, uint32_t length)
{
	uint32_t most = smb2_get_max_write_size(smb2), at = 0, requests = 0;

	while (at < length) {
		uint32_t count = length - at < most ? length - at : most;
		int written = smb2_pwrite(smb2, file, bytes + at, count, at);

		done(smb2, written, "write");
		if (written == 0)
			fail("nothing is written at %u", at);
		at += written;
		requests++;
	}
	printf("%u bytes in %u WRITEs\n", length, requests);
	if (requests < 2)
		fail("one WRITE was enough");
}

static void read_all(struct smb2_context *smb2, struct smb2fh *file, uint8_t *bytes, uint32_t length)
{
	uint32_t most = smb2_get_max_read_size(smb2), at = 0, requests = 0;

	while (at < length) {
		uint32_t count = length - at < most ? length - at : most;
		int read = smb2_pread(smb2, file, bytes + at, count, at);

		done(smb2, read, "read");
		if (read == 0)
			fail("the file ends at %u", at);
		at += read;
		requests++;
	}
	printf("%u bytes in %u READs\n", length, requests);
	if (requests < 2)
		fail("one READ was enough");
}

static void large_file(struct smb2_context *smb2)
{
	uint8_t *there = malloc(LENGTH), *back = malloc(LENGTH);
	struct smb2_stat_64 status;
	struct smb2fh *file;
	uint32_t i, dice = 1;

	for (i = 0; i < LENGTH; i++) {
		dice = dice * 1664525 + 1013904223;
		there[i] = dice >> 24;
	}
	file = smb2_open(smb2, "libsmb2/one", O_RDWR | O_CREAT | O_EXCL);
	if (file == NULL)
		fail("create: %s", smb2_get_error(smb2));
	write_all(smb2, file, there, LENGTH);
	done(smb2, smb2_fsync(smb2, file), "flush");
	done(smb2, smb2_fstat(smb2, file, &status), "fstat");
	if (status.smb2_size != LENGTH)
		fail("the file has %llu bytes", (unsigned long long)status.smb2_size);
	done(smb2, smb2_close(smb2, file), "close");
	if (smb2_open(smb2, "libsmb2/one", O_RDWR | O_CREAT | O_EXCL) != NULL)
		fail("a file that is there is created again");

	done(smb2, smb2_rename(smb2, "libsmb2/one", "libsmb2/two"), "rename");
	if (smb2_stat(smb2, "libsmb2/one", &status) != -ENOENT)
		fail("the old name is still there: %s", smb2_get_error(smb2));
	file = smb2_open(smb2, "libsmb2/two", O_RDONLY);
	if (file == NULL)
		fail("open: %s", smb2_get_error(smb2));
	read_all(smb2, file, back, LENGTH);
	if (memcmp(there, back, LENGTH) != 0)
		fail("what was read differs");
	done(smb2, smb2_close(smb2, file), "close");

	done(smb2, smb2_truncate(smb2, "libsmb2/two", 1000), "truncate");
	done(smb2, smb2_stat(smb2, "libsmb2/two", &status), "stat");
	if (status.smb2_size != 1000 || status.smb2_type != SMB2_TYPE_FILE)
		fail("after truncation there are %llu bytes", (unsigned long long)status.smb2_size);
	done(smb2, smb2_unlink(smb2, "libsmb2/two"), "unlink");
	free(there);
	free(back);
}

/* Never 0, because libsmb2 6.2 crashes when it signs a WRITE without data. */
static uint32_t length_of(int number)
{
	return 1 + number % 60;
}

static void many_files(struct smb2_context *smb2)
{
	char name[64] = { 0 }, seen[FILES] = { 0 };
	struct smb2dirent *entry;
	struct smb2dir *folder;
	struct smb2fh *file;
	int i, count = 0;

	done(smb2, smb2_mkdir(smb2, "libsmb2/many"), "mkdir");
	for (i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "libsmb2/many/a file with number %d", i);
		file = smb2_open(smb2, name, O_WRONLY | O_CREAT | O_EXCL);
		if (file == NULL)
			fail("%s: %s", name, smb2_get_error(smb2));
		done(smb2, smb2_write(smb2, file, (const uint8_t *)name, length_of(i)), name);
		done(smb2, smb2_close(smb2, file), name);
	}
	folder = smb2_opendir(smb2, "libsmb2/many");
	if (folder == NULL)
		fail("opendir: %s", smb2_get_error(smb2));
	while ((entry = smb2_readdir(smb2, folder)) != NULL) {
		if (sscanf(entry->name, "a file with number %d", &i) != 1)
			continue;
		if (i < 0 || i >= FILES || seen[i]++ != 0 || entry->st.smb2_size != length_of(i))
			fail("%s is listed with %llu bytes", entry->name, (unsigned long long)entry->st.smb2_size);
		count++;
	}
	smb2_closedir(smb2, folder);
	if (count != FILES)
		fail("%d of %d files are listed", count, FILES);
	/* libsmb2 opens the directory with delete-on-close, so it does not notice that this one is not removed. */
	(void)smb2_rmdir(smb2, "libsmb2/many");
	for (i = 0; i < FILES; i++) {
		snprintf(name, sizeof(name), "libsmb2/many/a file with number %d", i);
		done(smb2, smb2_unlink(smb2, name), name);
	}
	done(smb2, smb2_rmdir(smb2, "libsmb2/many"), "rmdir");
}

int main(int argc, char **argv)
{
	struct smb2_context *smb2;
	struct smb2_stat_64 status;

	if (argc != 3)
		fail("usage: %s SHARE signed|sealed", argv[0]);
	mode = argv[2];
	wrong_password(argv[1]);
	list_shares(argv[1]);
	smb2 = context(getenv("SERVER_PASSWORD"));
	done(smb2, connect_share(smb2, argv[1]), "connect");
	done(smb2, smb2_mkdir(smb2, "libsmb2"), "mkdir");
	large_file(smb2);
	many_files(smb2);
	done(smb2, smb2_rmdir(smb2, "libsmb2"), "rmdir");
	if (smb2_stat(smb2, "libsmb2", &status) != -ENOENT)
		fail("the directory is still there: %s", smb2_get_error(smb2));
	done(smb2, smb2_disconnect_share(smb2), "disconnect");
	smb2_destroy_context(smb2);
	return 0;
}
