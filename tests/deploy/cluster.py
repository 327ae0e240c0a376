"""A Ray cluster of one node with replicas on it, in processes of its own; run as a program.

    python -m tests.deploy.cluster FOLDER PORT {"replicas": 2, ...}

Says ``ready`` when the replicas are. A line on its input has it replace them by others, and say
``replaced``; everything ends when the input does.
"""

from __future__ import annotations

import json
import sys

__all__ = ["main"]

CORES = 2


def main() -> None:
    """Start, replace as often as asked to, stop."""
    folder, port, arguments = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    import ray
    from ray import serve

    from moestream.deploy.ray_serve import app

    ray.init(
        num_cpus=CORES,
        include_dashboard=False,
        object_store_memory=80 * 2**20,
        namespace="serve",
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=folder,
    )
    try:
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        serve.run(app(arguments))
        print("ready", flush=True)
        for _line in sys.stdin:
            serve.delete("default")
            serve.run(app(arguments))
            print("replaced", flush=True)
        serve.shutdown()
        print("stopped", flush=True)
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main()
