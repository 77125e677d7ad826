# Two commands for a newcomer: `make up` and `make test`. Whatever is longer than a line is Rust, in xtask/.

export PATH := $(HOME)/.cargo/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help up test lint fmt rust

help: ## Say what can be made.
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

up: rust ## Install what is missing, build, and start it: ends with a link for the browser.
	@cargo xtask up

test: rust ## Install what is missing and run every check and test.
	@cargo xtask test

lint: rust ## The checks of `make test` that run no tests.
	@cargo xtask lint

fmt: rust ## Format every file.
	@cargo fmt --all

# xtask is Rust and needs a linker, so these two come before it.
rust:
	@command -v cargo >/dev/null || { echo 'Rust is missing. Install rustup ("apt install rustup" on Debian 13 and Ubuntu 24.04 or newer; elsewhere as the rustup site says), then run this again.' >&2; exit 1; }
	@command -v cc >/dev/null || { echo 'A C compiler is missing: installing build-essential.'; as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; $$as_root apt-get update -q && $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends build-essential; }
