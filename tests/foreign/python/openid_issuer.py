"""An OpenID Connect issuer on 127.0.0.1, whose page lets everybody choose who they are. Arguments: the port, the client,
and its secret."""

import base64
import hashlib
import json
import secrets
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

PORT, CLIENT, SECRET = int(sys.argv[1]), sys.argv[2], sys.argv[3]
ISSUER = f"http://localhost:{PORT}"
USERS = ["alice", "bob", "carol", "dora", "Dora"]
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CODES = {}


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def number(value):
    return encoded(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def token(begun, user):
    now = int(time.time())
    claims = {
        "iss": ISSUER, "sub": user, "aud": CLIENT, "iat": now, "exp": now + 60, "auth_time": now,
        "nonce": begun["nonce"], "preferred_username": user,
    }
    parts = [encoded(json.dumps(part).encode()) for part in [{"alg": "RS256", "kid": "1"}, claims]]
    signed = ".".join(parts).encode()
    return ".".join([*parts, encoded(KEY.sign(signed, padding.PKCS1v15(), hashes.SHA256()))])


class Handler(BaseHTTPRequestHandler):
    def answer(self, status, kind, body, **headers):
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(body))), *headers.items()]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def json(self, value, status=200):
        self.answer(status, "application/json", json.dumps(value).encode())

    def do_GET(self):
        url = urlsplit(self.path)
        if url.path == "/.well-known/openid-configuration":
            names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
            self.json({"issuer": ISSUER, **{name: f"{ISSUER}/{path}" for name, path in names.items()}})
        elif url.path == "/keys":
            public = KEY.public_key().public_numbers()
            self.json({"keys": [{"kty": "RSA", "kid": "1", "use": "sig", "n": number(public.n), "e": number(public.e)}]})
        elif url.path == "/authorize":
            links = "".join(f'<p><a href="/approve?user={user}&amp;{quote(url.query, safe="=&%")}">{user}</a></p>'
                            for user in USERS)
            self.answer(200, "text/html", f"<!doctype html><title>Issuer</title><p>Choose a user</p>{links}".encode())
        elif url.path == "/approve":
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            code = secrets.token_urlsafe()
            CODES[code] = query
            back = urlencode({"state": query["state"], "code": code, "iss": ISSUER})
            self.answer(302, "text/plain", b"", Location=f"{query['redirect_uri']}?{back}")
        else:
            self.json({}, 404)

    def do_POST(self):
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        pair = base64.b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()
        begun = CODES.pop(form["code"][0], None)
        challenge = encoded(hashlib.sha256(form["code_verifier"][0].encode()).digest())
        known = [unquote(part) for part in pair.split(":")] == [CLIENT, SECRET]
        if not known or not begun or begun["code_challenge"] != challenge:
            self.json({"error": "invalid_grant"}, 400)
        else:
            self.json({"access_token": "unused", "token_type": "Bearer", "id_token": token(begun, begun["user"])})

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", PORT), Handler)
print("ready", flush=True)
server.serve_forever()
