# Every target sets up what it needs: see scripts/setup.sh.
PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest -q -n 2 --dist loadgroup
OUT := benchmarks/out
BENCHMARKS := $(filter-out _%,$(notdir $(basename $(wildcard benchmarks/*.py))))

.PHONY: demo test check nightly bench lock clean setup lint
.DEFAULT_GOAL := test

demo: setup ## the main job on generated data
	.venv/bin/eddyline demo

test: setup ## every test
	$(PYTEST)

check: lint test ## format, lint, strict types, then every test

nightly: setup ## every test that can go further, with many more seeds
	EDDYLINE_NIGHTLY=1 $(PYTEST) tests/oracle tests/errors tests/state tests/session tests/index tests/local tests/operators tests/reference \
		tests/spark
	$(PYTHON) -m tests.spark.fault_run --report docs/runs/faults.txt

bench: setup ## every benchmark, one after the other; OUT=docs/benchmarks refreshes the figures that the docs cite
	@set -e; for name in $(BENCHMARKS); do echo "== $$name"; EDDYLINE_BENCH_OUT=$(OUT) $(PYTHON) -m benchmarks.$$name; done

lock: ## requirements.lock from pyproject.toml, with hashes
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-annotate --no-header --quiet --output-file requirements.lock

clean: ## what tools and runs leave behind; the environment stays
	rm -rf build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache benchmarks/out spark-warehouse metastore_db derby.log
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

setup:
	@scripts/setup.sh

lint: setup
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m mypy --strict eddyline
