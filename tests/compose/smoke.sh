#!/usr/bin/env bash
# Check what a running deployment with docker-compose.yml must do: bash tests/compose/smoke.sh
#
# The script certifies a shipped image over the published port, kills a worker in the middle of a job and Redis after it,
# and checks what the containers can do. It needs docker, curl and python3, and leaves two workers behind, one of them dead.
set -euo pipefail
cd "$(dirname "$0")/../.."
ADDRESS=http://$(docker compose port api 8000)
KEY=$(cat deploy/secrets/api_key)
SCRATCH=$(mktemp -d)
trap 'rm -rf "$SCRATCH"' EXIT

say() { echo "-- [${SECONDS}s] $*"; }
fail() { echo "smoke: $*" >&2; exit 1; }
# expect WANTED SEEN WHAT
expect() { [ "$1" = "$2" ] || fail "$3: got '$2', not '$1'"; }
# field EXPRESSION: evaluates it for the JSON on standard input, which is called `it`
field() { python3 -c 'import json, sys; print(eval(sys.argv[1], {"it": json.load(sys.stdin)}))' "$1"; }
# within SECONDS COMMAND...: whether the command succeeds within this time
within() { local end=$((SECONDS + $1)); shift; until "$@"; do [ $SECONDS -lt $end ] || return 1; sleep 0.5; done; }
# ask PATH [CURL'S OPTIONS...]
ask() {
    curl --silent --show-error --fail-with-body --max-time 70 \
        --header "Authorization: Bearer $KEY" "$ADDRESS$1" "${@:2}"
}
# certify SECONDS REQUEST: waits this long for the response
certify() { ask /v1/certifications --header "Prefer: wait=$1" --form "request=$2" --form "images=@$SCRATCH/ship.png"; }
redis() { docker compose exec -T redis sh -c "REDISCLI_AUTH=\$(cat /run/secrets/redis_password) redis-cli --raw $*"; }

say "a shipped image is certified"
docker compose exec -T worker python -c '
import sys
from PIL import Image
Image.open("models/zoo/cifar10-test-100.png").crop((128, 0, 160, 32)).save(sys.stdout.buffer, "PNG")
' > "$SCRATCH/ship.png"
answer=$(certify 60 '{"radius": 0.25, "procedure": "sequential"}' |
    field '[(each["decision"], each["class_name"]) for each in it["certificates"]]')
expect "[('certified', 'ship')]" "$answer" "the certificate of a ship"

say "nobody comes in without a key, neither to the API nor to Redis"
status=$(curl --silent --output /dev/null --write-out '%{http_code}' "$ADDRESS/v1/certifications")
expect 401 "$status" "a request without a key"
docker compose exec -T redis redis-cli ping 2>&1 | grep -q NOAUTH || fail "Redis asks for no password"
ports=$(docker inspect --format '{{json .HostConfig.PortBindings}}' "$(docker compose ps --quiet redis)")
expect '{}' "$ports" "the published ports of Redis"
internal=$(docker network inspect --format '{{.Internal}}' smoothcert_inside)
expect true "$internal" "whether the network of Redis is closed"

say "the users of the containers cannot write their images, and that of the API has no torch"
for service in api worker; do
    expect 10001 "$(docker compose exec -T $service id -u)" "the user of $service"
    docker compose exec -T $service touch /srv/x /venv/x /x 2> /dev/null && fail "$service writes its root file system"
    # This must hold even if the root file system is not read-only. The API keeps its archive in a volume at /archive.
    # find complains about folders that it may not read.
    writable=$(docker run --rm --network none --entrypoint find smoothcert-$service / -xdev \
        \( -path /proc -o -path /dev -o -path /var/tmp -o -path /run/lock -o -path /archive \) -prune \
        -o -writable ! -type l -print 2> /dev/null) || true
    expect /tmp "$writable" "what its user may write in the image of $service"
done
present=$(docker compose exec -T api python -c '
from importlib.util import find_spec
print([name for name in ("torch", "torchvision", "rq", "workers", "app") if find_spec(name)])')
expect "['rq', 'app']" "$present" "what the image of the API has"

say "two workers; the one that has a long job is killed"
docker compose up --detach --wait --no-build --pull never --scale worker=2 2> /dev/null
expect 2 "$(ask /readyz | field 'it["workers"]')" "live workers"
job=$(certify 0 '{"procedure": {"name": "fixed", "n": 3000}}' | field 'it["id"]')
state() { ask "/v1/certifications/$job" > "$SCRATCH/job.json" && field "$1" < "$SCRATCH/job.json"; }
under_way() { [ "$(state 'it["status"] == "running" and it["progress"]["samples"] > 500')" = True ]; }
succeeded() { [ "$(state 'it["status"]')" = succeeded ]; }
worker() { redis hget "smoothcert:certification:$job" worker; }
within 120 under_way || fail "the job does not begin: $(cat "$SCRATCH/job.json")"
killed=$(worker)
docker kill --signal KILL "${killed%-*}" > /dev/null # a worker is named after its host, which is the container
expect running "$(state 'it["status"]')" "the job whose worker was killed"
say "$killed was killed at $(state 'it["progress"]["samples"]') samples"

say "the other one takes the job over, and its certificate is what the seed says, count for count"
within 300 succeeded || fail "the job does not end: $(cat "$SCRATCH/job.json")"
other=$(worker)
[ "${other%-*}" != "${killed%-*}" ] || fail "the dead worker has ended the job"
python3 -c 'import json, sys; json.dump(json.load(sys.stdin)["certificates"][0], sys.stdout)' \
    < "$SCRATCH/job.json" > "$SCRATCH/certificate.json"
consistent=$(ask /v1/verify --header "Content-Type: application/json" --data-binary @"$SCRATCH/certificate.json" |
    field 'it["consistent"]')
expect True "$consistent" "whether the certificate is consistent"
tar -C "$SCRATCH" -c certificate.json ship.png | docker exec -i "${other%-*}" tar -C /tmp -x
docker exec "${other%-*}" python -m workers replay /tmp/certificate.json /tmp/ship.png || fail "the counts are others"

say "Redis is killed and comes back with all that it has acknowledged"
digest=$(state 'it["certificates"][0]["digest"]')
docker compose kill --signal KILL redis 2> /dev/null
docker compose start redis 2> /dev/null
within 60 succeeded 2> /dev/null || fail "the certification is gone"
expect "$digest" "$(field 'it["certificates"][0]["digest"]' < "$SCRATCH/job.json")" "the certificate after the restart"

say "the compose file for GPUs can be read"
docker compose --file docker-compose.yml --file docker-compose.gpu.yml --profile two config --quiet
say "all of it holds"
