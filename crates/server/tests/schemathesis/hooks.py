"""Paths that name what there is: made-up ids alone reach nothing but 404."""

import json
import os

import schemathesis

THERE = json.loads(os.environ["NACRE_THERE"])
# What is in place of `{id}` depends on what is before it.
IDS = {
    "sessions": THERE["sessions"],
    "snapshots": [THERE["snapshot"]],
    "tokens": [THERE["other_token"]],
    "secrets": [THERE["secret"]],
    "orgs": [THERE["organisation"]],
    # None is there: its deletion is all that has an id, and Rust tests do it.
    "repos": [],
}
OTHERS = {
    "prompt": [THERE["prompt"]],
    "share": [THERE["share"]],
    "name": ["web"],
    "port": [3000],
    "action": ["start", "stop", "restart"],
    "invocation": [THERE["action"]],
    "evidence": [THERE["evidence"]],
    "user": [THERE["member"]],
}
# These end what they name, and the others would find nothing left. Rust tests do them.
LAST = {("DELETE", "/v1/sessions/{id}"), ("POST", "/v1/sessions/{id}/stop")}

turn = 0


@schemathesis.hook
def before_call(context, case, kwargs):
    global turn
    operation = case.operation
    if (case.method.upper(), operation.path) in LAST or not case.path_parameters:
        return
    turn += 1
    # One in four stays made up.
    if turn % 4 == 0:
        return
    kind = operation.path.split("/")[2]
    for name in case.path_parameters:
        known = IDS[kind] if name == "id" else OTHERS[name]
        if known:
            case.path_parameters[name] = known[turn % len(known)]
