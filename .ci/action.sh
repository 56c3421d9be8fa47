#!/usr/bin/env bash
# The step of action.yml: turns its inputs, given as environment variables, into one call of qdqtool validate.
set -euo pipefail
shopt -s globstar nullglob

# unquoted on purpose: the globs are expanded here
# shellcheck disable=SC2206
models=($MODELS)
if [ "${#models[@]}" -eq 0 ]; then
  echo "::error title=qdqtool::no file fits the input 'models'"
  exit 2
fi

options=(--output-format github)
[ -z "${TARGETS:-}" ] || options+=("--target=$TARGETS")
[ -z "${BASELINE:-}" ] || options+=("--baseline=$BASELINE")
[ -z "${FAIL_ON:-}" ] || options+=("--fail-on=$FAIL_ON")
[ -z "${SARIF_FILE:-}" ] || options+=("--report=sarif=$SARIF_FILE")
[ -z "${JUNIT_FILE:-}" ] || options+=("--report=junit=$JUNIT_FILE")
read -r -a more <<< "${ARGUMENTS:-}"

exec qdqtool validate "${options[@]}" ${more[@]+"${more[@]}"} -- "${models[@]}"
