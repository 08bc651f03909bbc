#!/usr/bin/env python3
"""Renders templates with Python's jinja2, set up as Hugging Face's apply_chat_template does.

jinja_oracle.py BATCH.json RESULTS.json   each {"source", "context"} of the batch to {"output"} or {"error"}
jinja_oracle.py --expected FOLDER         writes FOLDER/expected.json: FOLDER's *.jinja with its contexts.json
"""

import datetime
import json
import pathlib
import signal
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = datetime.datetime(2026, 1, 2, 3, 4, 5)
SECONDS_PER_TEMPLATE = 5


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("render"), [], [], body).set_lineno(line)

    def render(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


class OutOfTime(BaseException):
    pass


def on_alarm(signum, frame):
    raise OutOfTime()


def render(env, source, context):
    signal.alarm(SECONDS_PER_TEMPLATE)
    try:
        output = env.from_string(source).render(**context)
        output.encode()
        return {"output": output}
    except OutOfTime:
        return {"skipped": "out of time"}
    except Exception as error:  # whatever it is, ours must fail too
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        signal.alarm(0)


def render_batch(source, target):
    env = environment()
    batch = json.loads(pathlib.Path(source).read_text(encoding="utf-8"))
    results = [render(env, item["source"], item["context"]) for item in batch]
    pathlib.Path(target).write_text(json.dumps(results), encoding="utf-8")


def write_expected(folder):
    env = environment()
    folder = pathlib.Path(folder)
    contexts = json.loads((folder / "contexts.json").read_text(encoding="utf-8"))
    rows = []
    for path in sorted(folder.glob("*.jinja")):
        for case, context in contexts.items():
            result = render(env, path.read_bytes().decode(), context)
            if "output" in result:
                result = {"expected": result["output"]}
            rows.append({"template": path.name, "case": case, "context": context, **result})
    text = json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
    (folder / "expected.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, on_alarm)
    if sys.argv[1] == "--expected":
        write_expected(sys.argv[2])
    else:
        render_batch(sys.argv[1], sys.argv[2])
