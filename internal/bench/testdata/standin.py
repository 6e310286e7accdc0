"""A peer without a model, for tests: answers at once what it is told to. Run beside serve.py."""

import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.environ["SERVE"])
from serve import serve


class StandIn:
    def load(self, **job):
        print("a library's greeting")  # must not be taken for an answer
        return {"versions": "1.0", "seconds": len(job["model"])}

    def prompts(self, prompts, room):
        return {"seconds": 2, "tokens": sum(map(len, prompts))}

    def decode(self, n, tokens):
        ids = json.load(open(os.environ["IDS"]))
        return {"seconds": 1, "tokens": n * tokens, "ids": ids[:n]}

    def rollout(self, script, how):
        n = len(script["prompts"][0])
        return {"seconds": 10, "tokens": n * script["turns"] * sum(script["tokens"])}

    def fail(self):
        raise ValueError("no such thing")

    def die(self):
        sys.stderr.write("first\nout of everything\n")
        sys.stderr.flush()
        os._exit(3)

    def hang(self, file):
        child = subprocess.Popen(["sleep", "600"])
        with open(file + ".new", "w") as f:
            f.write(f"{os.getpid()} {child.pid}")
        os.rename(file + ".new", file)
        time.sleep(600)


serve(StandIn())
