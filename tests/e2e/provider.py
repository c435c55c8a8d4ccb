"""An OpenID Connect provider with the device grant (RFC 8628), on Authlib and a loopback port; its people are decided by the test."""
import logging
import os
import threading
import time

from harness import need

try:
    from authlib.integrations.flask_oauth2 import AuthorizationServer
    from authlib.oauth2.rfc6749 import ClientMixin
    from authlib.oauth2.rfc8628 import DEVICE_CODE_GRANT_TYPE, DeviceAuthorizationEndpoint, DeviceCodeGrant, DeviceCredentialDict
    from flask import Flask, jsonify
    from joserfc import jwt
    from joserfc.jwk import ECKey, RSAKey
    from werkzeug.serving import make_server
    MISSING = None
except ImportError as error:
    MISSING = error


class Provider:
    """Serves from `start` to the end of the test. `decide` answers a user code, as the person in the browser would."""
    CLIENT = "muster:lab/1"  # which must be escaped on its way
    SECRET = "s3cret+/=&"

    def __init__(self, case, is_public=False, algorithm="RS256"):
        need(MISSING is None, f"needs Authlib and Flask: {MISSING}")
        os.environ["AUTHLIB_INSECURE_TRANSPORT"] = "1"
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self.case, self.is_public, self.algorithm = case, is_public, algorithm
        self.grants, self.credentials, self.polls, self.tokens = {}, {}, [], 0
        self.lives_s, self.keys_asked = 600, 0
        self.key = self.new_key("first")
        self.app = Flask("provider")
        # The port is known before anything listens on it: a provider can be down first.
        self.server = make_server("127.0.0.1", 0, self.app, threaded=True)
        self.issuer = f"http://127.0.0.1:{self.server.server_port}/realm"
        case.addCleanup(self.server.server_close)
        self.route()

    def new_key(self, name):
        options = {"kid": name, "use": "sig", "alg": self.algorithm}
        return (RSAKey.generate_key(2048, options) if self.algorithm == "RS256" else ECKey.generate_key("P-256", options))

    def start(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        self.case.addCleanup(self.server.shutdown)
        return self

    def decide(self, user_code, subject, approved=True, key=None, **claims):
        """`claims` and `key` are what the ID token lies about."""
        self.grants[user_code] = {"subject": subject, "approved": approved, "key": key, "claims": claims}

    def expire(self, user_code):
        for credential in self.credentials.values():
            if credential["user_code"] == user_code:
                credential["expires_at"] = time.time() - 1

    def id_token(self, grant):
        now = int(time.time())
        claims = {"iss": self.issuer, "sub": grant["subject"], "aud": self.CLIENT, "iat": now, "exp": now + 300, **grant["claims"]}
        key = grant["key"] or self.key
        return jwt.encode({"alg": self.algorithm, "kid": key.kid}, claims, key)

    def route(self):
        provider, app = self, self.app

        class Client(ClientMixin):
            def get_client_id(self):
                return provider.CLIENT

            def get_allowed_scope(self, scope):
                return scope

            def check_client_secret(self, secret):
                return secret == provider.SECRET

            def check_endpoint_auth_method(self, method, endpoint):
                return method == ("none" if provider.is_public else "client_secret_basic")

            def check_grant_type(self, grant_type):
                return grant_type == DEVICE_CODE_GRANT_TYPE

        class Devices(DeviceAuthorizationEndpoint):
            INTERVAL = 1

            def get_verification_uri(self):
                return f"{provider.issuer}/device"

            def save_device_credential(self, client_id, scope, data):
                provider.credentials[data["device_code"]] = DeviceCredentialDict(
                    client_id=client_id, scope=scope, expires_at=time.time() + provider.lives_s, **data)

        class Grant(DeviceCodeGrant):
            def query_device_credential(self, device_code):
                provider.polls.append((device_code, time.monotonic()))
                return provider.credentials.get(device_code)

            def query_user_grant(self, user_code):
                grant = provider.grants.get(user_code)
                return grant and (grant, grant["approved"])

            def should_slow_down(self, credential):
                return False

            def create_token_response(self):
                status, token, headers = super().create_token_response()
                provider.tokens += 1
                return status, {**token, "id_token": provider.id_token(self.request.user)}, headers

        server = AuthorizationServer(app, query_client=lambda name: Client() if name == provider.CLIENT else None,
                                     save_token=lambda token, request: None)
        server.register_grant(Grant)
        server.register_endpoint(Devices)

        @app.get("/realm/.well-known/openid-configuration")
        def discover():
            return jsonify(issuer=provider.issuer, token_endpoint=f"{provider.issuer}/token", jwks_uri=f"{provider.issuer}/keys",
                           device_authorization_endpoint=f"{provider.issuer}/begin",
                           token_endpoint_auth_methods_supported=["client_secret_basic", "none"])

        @app.get("/realm/keys")
        def keys():
            provider.keys_asked += 1
            return jsonify(keys=[provider.key.as_dict(private=False)])

        app.post("/realm/begin", endpoint="begin")(lambda: server.create_endpoint_response(Devices.ENDPOINT_NAME))
        app.post("/realm/token", endpoint="token")(lambda: server.create_token_response())
