// A certification under way. It is read once and then followed by its events; without events, it is read every second.

import { events, get, Problem } from "./api.js";

const ENDED = new Set(["succeeded", "failed", "canceled", "expired"]);
const FEW_FAILURES = 2;      // streams that bring nothing before the page stops asking for one
const PAUSE = 1000;          // milliseconds
const LONGEST_TRAIL = 2000;  // counts

export class Certification {
  constructor(id) {
    this.id = id;
    this.summary = null;
    this.progress = null;
    this.certificates = new Map();
    this.seen = new Map();
    this.stall = null;  // why it does not move, if it does not
  }

  get ended() {
    return ENDED.has(this.summary.status);
  }

  get total() {
    return this.progress.images_total;
  }

  // The latest progress of an image; its trail has all counts of it that have arrived.
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
      const { index, stage, n, count, p_interval } = image;
      const trail = this.seen.get(index)?.trail ?? [];
      if (n && trail.at(-1)?.n !== n) trail.push({ stage, n, count, p_interval });
      if (trail.length > LONGEST_TRAIL) trail.splice(0, trail.length / 2);
      this.seen.set(index, { ...image, trail });
    }
  }
}

// Calls `changed(certification)` at once and with every change, `lost(problem)` while the server cannot be reached, and
// `failed(problem)` if there will be no more changes.
export function follow(id, { changed, lost, failed }) {
  const stop = new AbortController();
  const { signal } = stop;
  const certification = new Certification(id);
  const path = `/v1/certifications/${encodeURIComponent(id)}`;
  const announce = () => signal.aborted || changed(certification);

  async function look() {
    certification.takeSummary(await get(path, { signal }));
    announce();
  }

  async function listen() {
    let last = String(certification.certificates.size);
    for (let failures = 0; failures < FEW_FAILURES && !certification.ended; ) {
      try {
        for await (const { name, id: event, data } of events(`${path}/events`, last, signal)) {
          if (name === "certificate") certification.takeCertificate(data);
          else if (name === "progress") certification.takeProgress(data);
          else if (name === "stall") certification.stall = data;
          else certification.takeSummary(data);
          [last, failures] = [event, 0];
          announce();
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

// Whether trying again a second later would be of no use.
function isFinal(error) {
  return !(error instanceof TypeError) && !(error instanceof Problem && (error.status === 0 || error.status >= 500));
}

function pause(signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, PAUSE);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
