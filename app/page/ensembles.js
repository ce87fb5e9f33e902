// What should be known about ensembles besides their names: which could not be loaded, and which run elsewhere.

import { byId, element, fill } from "./dom.js";
import { whole } from "./words.js";

const isRemote = (architecture) => architecture.split(" > ").includes("remote");

// The ensembles that the workers could not load, each with the reason; shown at once where there are no others.
export function showFailed(failed, alone) {
  const place = byId("failed-ensembles");
  place.hidden = !failed.length;
  place.open ||= alone;
  fill(place, element("summary", {}, failed.length === 1 ? "1 ensemble could not be loaded" : `${whole(failed.length)} ensembles could not be loaded`),
    element("ul", {}, failed.map(({ name, reason }) => element("li", {}, element("strong", {}, name), `: ${reason}`))));
}

// What a certificate of this ensemble will not have, because members of it run at an endpoint; empty for most.
export function remoteNote({ architectures = [], members }) {
  const remote = architectures.filter(isRemote).length;
  if (!remote) return "";
  return `${remote} of ${members.length} ${members.length === 1 ? "member" : "members"} ${remote === 1 ? "runs" : "run"} at an endpoint. `
    + "The identity of such a member is not pinned, so certificates of this ensemble cannot be replayed.";
}
