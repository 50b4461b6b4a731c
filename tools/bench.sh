#!/bin/sh
# Measures this machine, stores the results and rewrites what is made from them: BENCHMARKS.md, README.md's table and
# the plot. Takes some eight minutes. Arguments go to pytest: `-k greedy` measures a part, which is not stored. Measures
# what is there: other packages that are installed, vLLM's kernels at VLLM_SO (its release in VLLM_VERSION), rows of a
# model in .work/model-rows.npz (benchmarks/model_rows.py). The stored figures of those that are not there stay.
set -eu
cd "$(dirname "$0")/.."
: "${PYTHON:?the Python of an environment with specverify[bench] installed; make bench sets it}"

mkdir -p .work
"$PYTHON" -m pytest benchmarks -q -o pythonpath=benchmarks --benchmark-enable --benchmark-json=.work/bench.json \
    --benchmark-columns=median,iqr,rounds --benchmark-sort=name --benchmark-group-by=func "$@"
if [ $# -eq 0 ]; then
    "$PYTHON" benchmarks/report.py --store .work/bench.json
fi
