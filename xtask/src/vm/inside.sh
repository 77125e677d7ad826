#!/bin/sh
# Runs in the virtual machine: doctor, one sandbox's life with limits, tests.
# Ends with 1 if doctor or the life fails, else with 2 if a test does.
programs=$(dirname "$0")
nacre=$programs/nacre
cgroups=/sys/fs/cgroup

now() {
    read -r up _ </proc/uptime
    echo "$up"
}

took() {
    echo "$1 $(now)" | awk '{ printf "%.1f s", $2 - $1 }'
}

step() {
    echo "\$ nacre $*"
    began=$(now)
    "$nacre" "$@" || fail "nacre $* ended with $?"
    echo "  ($(took "$began"))"
}

# One field of what a command prints as JSON.
field() {
    name=$1
    shift
    "$nacre" "$@" --json | sed -n "s/.*\"$name\": *\"\([^\"]*\)\".*/\1/p" | head -n 1
}

fail() {
    echo "FAILED: $*"
    exit 1
}

# The sandbox's cgroup, a file in it, what it must hold.
holds() {
    found=$(cat "$cgroups"/nacre-*/"$1/$2") || fail "$2 of $1 cannot be read"
    case "$found" in
        *"$3"*) echo "  $2: $3" ;;
        *) fail "$2 of $1 is '$found', not '$3'" ;;
    esac
}

limited() {
    holds "$1" memory.max 268435456
    holds "$1" pids.max 64
    holds "$1" cpu.max '50000 100000'
}

life() {
    limits='--memory 256M --cpus 0.5 --pids 64'
    # shellcheck disable=SC2086 # several words
    step sandbox create --from host --name first $limits
    first=$(field id sandbox show first)
    limited "$first"
    step sandbox exec first -- sh -c 'echo pearl >/root/kept; cat /proc/self/cgroup'
    # Busy beyond its share: a throttled process is the hard one to freeze.
    step sandbox exec first --detach -- sh -c 'while :; do :; done'
    step sandbox pause first
    holds "$first" cgroup.events 'frozen 1'
    holds "$first" cpu.max '50000 100000'
    step sandbox resume first
    holds "$first" cgroup.events 'frozen 0'
    step sandbox snapshot first --name kept
    holds "$first" cgroup.events 'frozen 0'
    limited "$first"
    fork=$(field id sandbox fork first)
    [ -n "$fork" ] || fail 'no fork'
    limited "$fork"
    step sandbox exec "$fork" -- grep pearl /root/kept
    step sandbox stop first
    # shellcheck disable=SC2086 # several words
    step sandbox create --from kept --name second $limits
    limited "$(field id sandbox show second)"
    step sandbox exec second -- grep pearl /root/kept
    step sandbox rm first second "$fork"
    step sandbox ls
    left=$(find "$cgroups" -name 'sbx_*' -o -name 'nacre-*')
    [ -z "$left" ] || fail "cgroups are left: $left"
}

# Each in a process of its own, as a test's home is named after its process.
tests() {
    prefix=$(cat "$programs/tests")
    passed=0
    failed=
    for test in $("$programs/it" --list --format terse | sed -n "s/^\($prefix.*\): test\$/\1/p"); do
        began=$(now)
        if timeout 300 "$programs/it" --exact "$test" >/run/test 2>&1; then
            passed=$((passed + 1))
            echo "PASS $test ($(took "$began"))"
        else
            failed="$failed $test"
            echo "FAIL $test ($(took "$began"))"
            cat /run/test
        fi
    done
    echo "$passed passed"
    for test in $failed; do
        echo "FAILED: $test"
    done
    [ -z "$failed" ] && [ "$passed" -gt 0 ]
}

echo "vm: $(uname -r), started in $(now) s"
echo "  controllers: $(cat $cgroups/cgroup.controllers)"
echo '==> doctor'
step doctor
echo '==> a life'
began_life=$(now)
life
echo "<== a life: $(took "$began_life")"
echo '==> tests'
# Emulated, taking all that the kernel gives by itself is slower than `nacre-intruder` has patience.
echo 2000 >/proc/sys/fs/inotify/max_user_watches
began_tests=$(now)
tests || exit 2
echo "<== tests: $(took "$began_tests")"
