// Axes: the place of a value, the values of the ticks, and a path through places.

export function linear(from, to, start, end) {
  return (value) => start + ((value - from) / (to - from)) * (end - start);
}

export function logarithmic(from, to, start, end) {
  const place = linear(Math.log(from), Math.log(to), start, end);
  return (value) => place(Math.log(Math.min(Math.max(value, from), to)));
}

export function decades(from, to) {
  const ticks = [];
  for (let tick = 10 ** Math.ceil(Math.log10(from)); tick <= to * 1.0001; tick *= 10) ticks.push(tick);
  return ticks;
}

// Round values, about `most` of them.
export function rounds(from, to, most) {
  const rough = (to - from) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const [first, last] = [Math.ceil(from / step - 1e-9), Math.floor(to / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, i) => Number(((first + i) * step).toPrecision(9)));
}

export const compact = (n) => (n >= 1e6 ? `${n / 1e6} M` : n >= 1000 ? `${n / 1000} k` : String(n));

export const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
