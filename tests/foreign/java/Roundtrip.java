import com.hierynomus.msdtyp.AccessMask;
import com.hierynomus.mserref.NtStatus;
import com.hierynomus.msfscc.fileinformation.FileIdBothDirectoryInformation;
import com.hierynomus.mssmb2.SMB2CreateDisposition;
import com.hierynomus.mssmb2.SMB2Dialect;
import com.hierynomus.mssmb2.SMB2ShareAccess;
import com.hierynomus.mssmb2.SMBApiException;
import com.hierynomus.smbj.SMBClient;
import com.hierynomus.smbj.SmbConfig;
import com.hierynomus.smbj.auth.AuthenticationContext;
import com.hierynomus.smbj.connection.Connection;
import com.hierynomus.smbj.session.Session;
import com.hierynomus.smbj.share.DiskShare;
import com.hierynomus.smbj.share.File;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;

/**
 * smbj: connect, make, write, flush, read, rename, list and remove files and directories.
 *
 * Arguments: the share, `signed` or `sealed`, and the dialects. The environment specifies the port and the user's name
 * and password. The exit status is 0 if every step succeeds.
 */
public final class Roundtrip {
    /** Needs several WRITEs and READs, because smbj transfers at most 1 MiB in each. Not a multiple of 1 MiB. */
    private static final int LENGTH = 5 * 1024 * 1024 + 12_345;
    /** Number of files: more than fit into a listing response of 64 KiB. */
    private static final int FILES = 500;
    private static final int LISTING = 64 * 1024;
    private static final Set<SMB2ShareAccess> SHARED = SMB2ShareAccess.ALL;

    public static void main(String[] arguments) throws Exception {
        String share = arguments[0];
        boolean sealed = switch (arguments[1]) {
            case "sealed" -> true;
            case "signed" -> false;
            default -> throw new IllegalArgumentException(arguments[1] + " is neither signed nor sealed");
        };
        for (String name : Arrays.copyOfRange(arguments, 2, arguments.length)) {
            SMB2Dialect dialect = SMB2Dialect.valueOf("SMB_" + name.replace('.', '_'));
            try (SMBClient client = client(dialect, sealed)) {
                refuseWrongPassword(client, share);
            }
            // A client keeps one connection per server. A new client avoids the one whose logon was refused.
            try (SMBClient client = client(dialect, sealed); Connection connection = connect(client)) {
                check(connection.getNegotiatedProtocol().getDialect() == dialect, "another dialect was negotiated");
                try (Session session = connection.authenticate(account(System.getenv("SERVER_PASSWORD")))) {
                    DiskShare disk = (DiskShare) session.connectShare(share);
                    roundTrip(disk);
                    disk.close();
                }
            }
            if (sealed) {
                refuseInTheClear(dialect, share);
            }
        }
    }

    private static SMBClient client(SMB2Dialect dialect, boolean sealed) {
        SmbConfig.Builder config = SmbConfig.builder().withDialects(dialect).withSigningRequired(true);
        return new SMBClient(config.withEncryptData(sealed).withTransactBufferSize(LISTING).build());
    }

    private static Connection connect(SMBClient client) throws Exception {
        return client.connect("127.0.0.1", Integer.parseInt(System.getenv("SERVER_PORT")));
    }

    private static AuthenticationContext account(String password) {
        return new AuthenticationContext(System.getenv("SERVER_USER"), password.toCharArray(), "");
    }

    private static void refuseWrongPassword(SMBClient client, String share) throws Exception {
        try (Connection connection = connect(client)) {
            connection.authenticate(account("wrong"));
            throw new AssertionError("a wrong password logs on");
        } catch (SMBApiException refused) {
            check(refused.getStatus() == NtStatus.STATUS_LOGON_FAILURE, "a wrong password gives " + refused);
        }
    }

    /** Checks that a client without encryption gets STATUS_ACCESS_DENIED. */
    private static void refuseInTheClear(SMB2Dialect dialect, String share) throws Exception {
        try (SMBClient client = client(dialect, false); Connection connection = connect(client)) {
            connection.authenticate(account(System.getenv("SERVER_PASSWORD"))).connectShare(share);
            throw new AssertionError("a client that does not encrypt comes in");
        } catch (SMBApiException refused) {
            check(refused.getStatus() == NtStatus.STATUS_ACCESS_DENIED, "in the clear it gives " + refused);
        }
    }

    private static void roundTrip(DiskShare disk) throws Exception {
        disk.mkdir("smbj");
        check(disk.folderExists("smbj"), "the directory is not there");
        large(disk);
        many(disk);
        disk.rmdir("smbj", false);
        check(!disk.folderExists("smbj"), "the directory is still there");
    }

    private static void large(DiskShare disk) throws Exception {
        byte[] data = new byte[LENGTH];
        new Random(1).nextBytes(data);
        try (File file = open(disk, "smbj\\one", AccessMask.GENERIC_WRITE, SMB2CreateDisposition.FILE_CREATE)) {
            try (OutputStream out = file.getOutputStream()) {
                out.write(data);
            }
            file.flush();
        }
        try {
            open(disk, "smbj\\one", AccessMask.GENERIC_WRITE, SMB2CreateDisposition.FILE_CREATE);
            throw new AssertionError("a file that is there is created again");
        } catch (SMBApiException refused) {
            check(refused.getStatus() == NtStatus.STATUS_OBJECT_NAME_COLLISION, "creating it again gives " + refused);
        }
        try (File file = open(disk, "smbj\\one", AccessMask.DELETE, SMB2CreateDisposition.FILE_OPEN)) {
            file.rename("smbj\\two");
        }
        check(!disk.fileExists("smbj\\one") && disk.fileExists("smbj\\two"), "the file was not renamed");
        long length = disk.getFileInformation("smbj\\two").getStandardInformation().getEndOfFile();
        check(length == LENGTH, "the file has " + length + " bytes");
        try (File file = open(disk, "smbj\\two", AccessMask.GENERIC_READ, SMB2CreateDisposition.FILE_OPEN)) {
            try (InputStream in = file.getInputStream()) {
                check(Arrays.equals(in.readAllBytes(), data), "what was read differs");
            }
            byte[] end = new byte[100];
            check(file.read(end, LENGTH - 10) == 10, "another number of bytes than the last ten");
        }
        disk.rm("smbj\\two");
    }

    private static void many(DiskShare disk) throws Exception {
        disk.mkdir("smbj\\many");
        Set<String> made = new TreeSet<>();
        for (int number = 0; number < FILES; number++) {
            String name = "a file with number " + number;
            open(disk, "smbj\\many\\" + name, AccessMask.GENERIC_WRITE, SMB2CreateDisposition.FILE_CREATE).close();
            made.add(name);
        }
        Set<String> listed = new TreeSet<>();
        for (FileIdBothDirectoryInformation entry : disk.list("smbj\\many")) {
            check(listed.add(entry.getFileName()), entry.getFileName() + " is listed twice");
        }
        listed.removeAll(Set.of(".", ".."));
        check(listed.equals(made), listed.size() + " of " + FILES + " files are listed");
        try {
            disk.rmdir("smbj\\many", false);
            throw new AssertionError("a directory with files in it is removed");
        } catch (SMBApiException refused) {
            check(refused.getStatus() == NtStatus.STATUS_DIRECTORY_NOT_EMPTY, "removing it gives " + refused);
        }
        disk.rmdir("smbj\\many", true);
        check(!disk.folderExists("smbj\\many"), "the directory is still there");
    }

    private static File open(DiskShare disk, String path, AccessMask access, SMB2CreateDisposition disposition) {
        return disk.openFile(path, EnumSet.of(access), null, SHARED, disposition, null);
    }

    private static void check(boolean right, String otherwise) {
        if (!right) {
            throw new AssertionError(otherwise);
        }
    }
}
