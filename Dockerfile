# Two images of one tree: `api`, without torch, and `worker`, with the shipped ensembles.
#
# Everything in them belongs to root and the processes do not run as root, so that they cannot write their own code.
# They write to /tmp alone: run them with a read-only root file system and a tmpfs there.
FROM python:3.11-slim-bookworm AS base
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
WORKDIR /srv

# What is installed changes seldom, so it comes before the sources.
FROM base AS packages
# An index that has CPU builds of torch makes the worker's image some gigabytes smaller; the versions stay the same.
ARG PIP_EXTRA_INDEX_URL
ENV PIP_CACHE_DIR=/var/cache/pip PIP_CONSTRAINT=constraints.txt PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1
COPY deploy/lock constraints.txt ./
RUN --mount=type=cache,target=/var/cache/pip python -m venv /venv && python -m pip install pip

FROM packages AS api-packages
RUN --mount=type=cache,target=/var/cache/pip pip install --require-hashes --requirement api.txt

FROM packages AS worker-packages
RUN --mount=type=cache,target=/var/cache/pip pip install --require-hashes --requirement worker.txt
# Their hashes cannot be required, because the arguments above choose the build and the index.
RUN --mount=type=cache,target=/var/cache/pip pip install torch torchvision
# Members of other libraries need extras in the worker: --build-arg EXTRAS="hub onnx". Their versions are pinned.
ARG EXTRAS=
RUN --mount=type=cache,target=/var/cache/pip for extra in $EXTRAS; do pip install --requirement extra-$extra.txt || exit 1; done

# Readable by all whatever the umask of the clone was; compiled, since nothing can be compiled later.
FROM base AS sources
COPY smoothcert smoothcert
COPY store store
COPY app app
COPY models models
COPY workers workers
RUN chmod -R u=rwX,go=rX . && python -m compileall -q . && mkdir /archive

FROM base AS service
ENV SMOOTHCERT_CACHE=/tmp/smoothcert
USER 10001:10001
# docker build --build-arg REVISION=$(git rev-parse HEAD) --build-arg CREATED=$(date -u +%Y-%m-%dT%H:%M:%SZ)
ARG VERSION=0.2.0
ARG REVISION=unknown
ARG CREATED=unknown
LABEL org.opencontainers.image.vendor="smoothcert" \
    org.opencontainers.image.licenses="MIT" \
    org.opencontainers.image.base.name="docker.io/library/python:3.11-slim-bookworm" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.created="$CREATED"

FROM service AS api
LABEL org.opencontainers.image.title="smoothcert-api" \
    org.opencontainers.image.description="The HTTP API of smoothcert: certified robustness by randomized smoothing"
COPY --from=api-packages /venv /venv
COPY --from=sources /srv/smoothcert smoothcert
COPY --from=sources /srv/store store
COPY --from=sources /srv/app app
COPY --from=sources /srv/models/zoo/*-test-100.* models/zoo/
# A volume that is mounted here for the first time takes its owner from this folder.
COPY --from=sources --chown=10001:10001 --chmod=700 /archive /archive
ENV SMOOTHCERT_HOST=0.0.0.0
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --start-interval=1s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["python", "-m", "app"]

FROM service AS worker
LABEL org.opencontainers.image.title="smoothcert-worker" \
    org.opencontainers.image.description="A worker of smoothcert, with torch and the shipped ensembles"
COPY --from=worker-packages /venv /venv
COPY --from=sources /srv/smoothcert smoothcert
COPY --from=sources /srv/store store
COPY --from=sources /srv/models models
COPY --from=sources /srv/workers workers
HEALTHCHECK --interval=15s --timeout=10s --start-period=120s --start-interval=2s \
    CMD ["python", "-m", "workers", "health"]
CMD ["python", "-m", "workers"]
