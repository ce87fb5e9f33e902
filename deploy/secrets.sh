#!/bin/sh
# Makes the secrets that docker-compose.yml mounts, in deploy/secrets; what is there already stays as it is.
#
#   redis_password   between the service and its Redis
#   api_key          for clients: SMOOTHCERT_API_KEY=$(cat deploy/secrets/api_key)
#   api_keys         what the API knows of it: name:sha256, one in each line
#   seed_secret      the API makes the seeds of all noise from it; keep it, and reveal it to show that none was chosen
#   keyring          the Ed25519 key that signs certificates; `python -m app keygen --rotate` replaces it
#
# Nobody else may enter the folder. The files that are mounted are readable by all, since the users in the
# containers are others than yours.
set -eu
cd "$(dirname "$0")"
mkdir -p secrets
chmod 700 secrets
cd secrets

random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
sha256() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -d ' ' -f 1; }

if [ ! -s redis_password ]; then
    random > redis_password
fi
if [ ! -s seed_secret ]; then
    random > seed_secret
fi
if [ ! -s api_keys ]; then
    printf 'sk_%s' "$(random)" > api_key
    printf 'compose:%s\n' "$(sha256 < api_key)" > api_keys
    chmod 600 api_key
fi
if [ ! -s keyring ]; then
    printf '{"format": "smoothcert/keyring/1", "private": "%s", "not_before": "%s"}\n' \
        "$(random)" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" > keyring
fi
chmod 444 redis_password api_keys seed_secret keyring
