#!/usr/bin/env bash
# What the GitHub Action does. Reads INPUT_COMMAND, INPUT_PATHS, INPUT_ARGS, INPUT_SARIF and GEVALS; writes annotations to
# standard output, outputs to GITHUB_OUTPUT and a summary to GITHUB_STEP_SUMMARY. Exits as gevals does.
set -euo pipefail

output() {
    printf '%s=%s\n' "$1" "$2" >>"${GITHUB_OUTPUT:-/dev/null}"
}

summary() {
    cat >>"${GITHUB_STEP_SUMMARY:-/dev/null}"
}

# A gevals that was given, one on PATH, or one built from these sources: for `check` the compiler alone, which is sooner.
find_gevals() {
    if [ -n "${GEVALS:-}" ]; then
        return
    fi
    if command -v gevals >/dev/null; then
        GEVALS=gevals
        return
    fi
    local features=(--no-default-features)
    [ "$command" = check ] || features=()
    local root=${RUNNER_TEMP:-/tmp}/gevals-$command
    echo "::group::building gevals"
    cargo install --locked --quiet --root "$root" --path "$(dirname "$0")/../.." "${features[@]}"
    echo "::endgroup::"
    GEVALS=$root/bin/gevals
}

check() {
    local status=0 again=0 errors
    # Annotations; then the same findings for code scanning, and counted for the summary.
    "$GEVALS" check "${paths[@]}" "${args[@]}" --format github || status=$?
    if [ -n "${INPUT_SARIF:-}" ] && [ "$status" -le 1 ]; then
        "$GEVALS" check "${paths[@]}" "${args[@]}" --format sarif >"$INPUT_SARIF" || again=$?
        output sarif "$INPUT_SARIF"
    fi
    [ "$again" -le 1 ] || status=$again
    if [ "$status" -le 1 ]; then
        errors=$("$GEVALS" check "${paths[@]}" "${args[@]}" --format json --exit-zero | grep -o '"level":"error"' | wc -l) || errors=0
        output errors "$((errors))"
        {
            echo "### gevals check"
            echo
            echo '```text'
            "$GEVALS" check "${paths[@]}" "${args[@]}" --format concise --exit-zero --color never
            echo '```'
        } | summary
    fi
    return "$status"
}

run() {
    local status=0 log dir results
    log=$(mktemp)
    dir=${RUNNER_TEMP:-$(mktemp -d)}
    "$GEVALS" run "${paths[@]}" "${args[@]}" --output-dir "$dir" --color never 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
    results=$(sed -n 's/^results: //p' "$log" | tail -1)
    output results "$results"
    {
        echo "### gevals run"
        echo
        echo '```text'
        cat "$log"
        echo '```'
    } | summary
    rm -f "$log"
    return "$status"
}

command=${INPUT_COMMAND:-check}
# Words are split here and nowhere else, and no pattern in them is expanded.
set -f
read -r -d '' -a paths <<<"${INPUT_PATHS:-.}" || true
read -r -d '' -a args <<<"${INPUT_ARGS:-}" || true
set +f

case $command in
check | run) ;;
*)
    echo "::error::the action knows the commands \`check\` and \`run\`, not \`$command\`"
    output status 2
    exit 2
    ;;
esac
find_gevals
status=0
"$command" || status=$?
output status "$status"
exit "$status"
