"""Canaille, an OpenID Connect provider, on the loopback interface. Its data are in memory. Arguments: the port, the
client, its secret, the redirect URI, how the provider is to behave ("plain", "strict"), and the users with their
passwords, alternately.

"strict" is Canaille as it is configured for a name: the issuer has no slash at its end, tokens have a signature with
ES256, the secret is expected in the body, and users are asked for their consent."""

import logging
import sys

PORT, CLIENT, SECRET, REDIRECT, MANNER, *PEOPLE = sys.argv[1:]
IS_STRICT = MANNER == "strict"

from canaille import create_app  # noqa: E402
from canaille.app import models  # noqa: E402
from canaille.backends import Backend  # noqa: E402
from joserfc.jwk import ECKey, RSAKey  # noqa: E402
from werkzeug.serving import make_server  # noqa: E402

KEYS = [RSAKey.generate_key(2048, auto_kid=True), ECKey.generate_key("P-256", auto_kid=True)]
settings = {
    "SECRET_KEY": "of the test",
    "CANAILLE": {"DATABASE": "memory", "LOGGING": {"version": 1, "disable_existing_loggers": True}},
    "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True) for key in KEYS]},
}
if IS_STRICT:
    settings.update(SERVER_NAME=f"localhost:{PORT}", PREFERRED_URL_SCHEME="http")
app = create_app(settings)


def client(name, secret, **more):
    made = models.Client(
        client_id=name, client_secret=secret, client_name=name, redirect_uris=[REDIRECT], response_types=["code"],
        grant_types=["authorization_code"], scope=["openid", "profile"], **more,
    )
    Backend.instance.save(made)
    return made


with app.app_context(), Backend.instance.session():
    for name, password in zip(PEOPLE[::2], PEOPLE[1::2]):
        Backend.instance.save(models.User(
            user_name=name, formatted_name=f"{name} of the test", family_name="Test", display_name=f"Display {name}",
            emails=[f"{name}@example.com"], password=password,
        ))
    if IS_STRICT:
        own = client(CLIENT, SECRET, token_endpoint_auth_method="client_secret_post",
                     id_token_signed_response_alg="ES256")
    else:
        own = client(CLIENT, SECRET, token_endpoint_auth_method="client_secret_basic",
                     client_uri=f"http://127.0.0.1:{PORT}")
    own.audience = [own]
    Backend.instance.save(own)

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = make_server("127.0.0.1", int(PORT), app, threaded=True)
print("ready", flush=True)
server.serve_forever()
