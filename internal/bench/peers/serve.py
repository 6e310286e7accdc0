"""The server around a peer: one JSON job per line on standard input, one JSON answer per line on standard output."""

import json
import os
import queue
import sys
import threading


def serve(peer):
    """peer has a method for each value of "do"; it takes the job and returns the answer."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is not an answer
    jobs = queue.Queue()

    def read():
        for line in sys.stdin:
            jobs.put(json.loads(line))
        os._exit(0)  # whoever asked is gone, in the middle of a job or not

    threading.Thread(target=read, daemon=True).start()
    while True:
        job = jobs.get()
        try:
            answer = getattr(peer, job.pop("do"))(**job)
        except Exception as e:  # the next job may go well
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), file=out, flush=True)
