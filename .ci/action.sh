#!/usr/bin/env bash
# The step of action.yml: turns its inputs, given as environment variables, into one call of qdqtool.
set -euo pipefail
shopt -s globstar nullglob

options=(--output-format github)
[ -z "${SARIF_FILE:-}" ] || options+=("--report=sarif=$SARIF_FILE")
[ -z "${JUNIT_FILE:-}" ] || options+=("--report=junit=$JUNIT_FILE")
read -r -a more <<< "${ARGUMENTS:-}"

case "${COMMAND:-validate}" in
  check) exec qdqtool check "${options[@]}" ${more[@]+"${more[@]}"} ;;
  validate) ;;
  *)
    echo "::error title=qdqtool::the input 'command' is neither validate nor check"
    exit 2
    ;;
esac

# unquoted on purpose: the globs are expanded here
# shellcheck disable=SC2206
models=(${MODELS:-})
if [ "${#models[@]}" -eq 0 ]; then
  echo "::error title=qdqtool::no file fits the input 'models'"
  exit 2
fi
[ -z "${TARGETS:-}" ] || options+=("--target=$TARGETS")
[ -z "${BASELINE:-}" ] || options+=("--baseline=$BASELINE")
[ -z "${FAIL_ON:-}" ] || options+=("--fail-on=$FAIL_ON")

exec qdqtool validate "${options[@]}" ${more[@]+"${more[@]}"} -- "${models[@]}"
