"""What a coordinator tells of its data, to be compared between versions (tests/data-0.2.0)."""
import json


SINCE_THEN = ("devices", "quota", "limit", "used", "borrowed", "waiting", "weight", "people")  # columns of project ls


def job_of(cluster, summary):
    record = cluster.api.record(summary.name)
    logs = {"/".join(map(str, key)): text.decode() for key, text in cluster.api.logs(summary.name)[0].items()}
    return {"id": record.id, "state": record.state, "owner": record.owner, "attempts": len(record.attempts),
            "reason": record.reason, "events": record.event_count, "logs": logs,
            "metrics": [list(point) for point in cluster.api.metrics(summary.name)],
            "checkpoints": [[each.step, each.state] for each in record.checkpoints]}


def seen(cluster):
    people = json.loads(cluster.jobctl("user", "ls", "-o", "json").stdout)["items"]
    secrets = json.loads(cluster.jobctl("secret", "ls", "-o", "json").stdout)["items"]
    projects = [{key: project[key] for key in project if key not in SINCE_THEN}
                for project in json.loads(cluster.jobctl("project", "ls", "-o", "json").stdout)["items"]]
    verified = cluster.jobctl("audit", "--verify").stdout
    return {"jobs": {each.name: job_of(cluster, each) for each in cluster.api.list()},
            "people": people, "secrets": secrets, "projects": projects, "audit": verified.split("head ")[1].strip()}
