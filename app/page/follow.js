// A certification under way: read once, then its events; looked at every second where events do not come through.

import { events, get, Problem } from "./api.js";

const ENDED = new Set(["succeeded", "failed", "canceled", "expired"]);
const FEW_FAILURES = 2;
const PAUSE = 1000;
const LONGEST_TRAIL = 2000;

export class Certification {
  constructor(id) {
    this.id = id;
    this.summary = null;
    this.progress = null;
    this.certificates = new Map();
    this.seen = new Map();
  }

  get ended() {
    return ENDED.has(this.summary.status);
  }

  get total() {
    return this.progress.images_total;
  }

  // How far an image has come, as was last heard; its trail is all that was heard of its count.
  underWay(index) {
    return this.seen.get(index) ?? null;
  }

  takeSummary(summary) {
    this.summary = summary;
    this.takeProgress(summary.progress);
    for (const each of summary.certificates ?? []) this.takeCertificate(each);
  }

  takeCertificate(certificate) {
    this.certificates.set(certificate.index, certificate);
  }

  takeProgress(progress) {
    this.progress = progress;
    for (const image of progress.images) {
      const { index, stage, n, count } = image;
      const trail = this.seen.get(index)?.trail ?? [];
      if (n && trail.at(-1)?.n !== n) trail.push({ stage, n, count });
      if (trail.length > LONGEST_TRAIL) trail.splice(0, trail.length / 2);
      this.seen.set(index, { ...image, trail });
    }
  }
}

// Calls `changed(certification)` at once and with all news, `lost(problem)` whenever nothing comes through any more,
// `failed(problem)` if there can be no more of it.
export function follow(id, { changed, lost, failed }) {
  const stop = new AbortController();
  const { signal } = stop;
  const certification = new Certification(id);
  const path = `/v1/certifications/${encodeURIComponent(id)}`;
  const tell = () => signal.aborted || changed(certification);

  async function look() {
    certification.takeSummary(await get(path, { signal }));
    tell();
  }

  async function listen() {
    let last = String(certification.certificates.size);
    for (let failures = 0; failures < FEW_FAILURES && !certification.ended; ) {
      try {
        for await (const { name, id: event, data } of events(`${path}/events`, last, signal)) {
          if (name === "certificate") certification.takeCertificate(data);
          else if (name === "progress") certification.takeProgress(data);
          else certification.takeSummary(data);
          [last, failures] = [event, 0];
          tell();
        }
        failures += 1;
      } catch (error) {
        if (signal.aborted || isFinal(error)) throw error;
        failures += 1;
      }
      if (!certification.ended) await pause(signal);
    }
  }

  async function run() {
    await look();
    await listen();
    while (!certification.ended) {
      await pause(signal);
      await look().catch((error) => {
        if (signal.aborted || isFinal(error)) throw error;
        lost(error);
      });
    }
    if (certification.certificates.size < certification.progress.images_done) await look();
  }

  run().catch((error) => signal.aborted || failed(error));
  return { certification, stop: () => stop.abort() };
}

// What will not be otherwise a second later.
function isFinal(error) {
  return !(error instanceof TypeError) && !(error instanceof Problem && (error.status === 0 || error.status >= 500));
}

function pause(signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, PAUSE);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
