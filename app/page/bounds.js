// Clopper–Pearson bounds, as smoothcert/bounds.py has them, for drawing.

const LANCZOS = [676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
  -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7];

function logGamma(x) {
  const t = x + 6.5;
  const sum = LANCZOS.reduce((all, each, i) => all + each / (x + i), 0.99999999999980993);
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(t) - t + Math.log(sum);
}

// The continued fraction of the incomplete beta function, by Lentz's method; it is quick for x < (a + 1) / (a + b + 2).
function fraction(a, b, x) {
  const least = 1e-300;
  const apart = (value) => (Math.abs(value) < least ? least : value);
  let c = 1, d = 1 / apart(1 - ((a + b) * x) / (a + 1)), all = d;
  for (let m = 1; m < 5000; m += 1) {
    const even = (m * (b - m) * x) / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / apart(1 + even * d);
    c = apart(1 + even / c);
    all *= d * c;
    const odd = (-(a + m) * (a + b + m) * x) / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / apart(1 + odd * d);
    c = apart(1 + odd / c);
    all *= d * c;
    if (Math.abs(d * c - 1) < 1e-12) break;
  }
  return all;
}

// P(Beta(a, b) <= x)
function beta(a, b, x) {
  if (x <= 0 || x >= 1) return x <= 0 ? 0 : 1;
  const scale = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  return x < (a + 1) / (a + b + 2) ? (scale * fraction(a, b, x)) / a : 1 - (scale * fraction(b, a, 1 - x)) / b;
}

function quantile(share, a, b) {
  let low = 0, high = 1;
  for (let i = 0; i < 50; i += 1) {
    const middle = (low + high) / 2;
    if (beta(a, b, middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

export function lowerBound(count, n, alpha) {
  return count === 0 ? 0 : quantile(alpha, count, n - count + 1);
}

export function upperBound(count, n, alpha) {
  return count === n ? 1 : 1 - quantile(alpha, n - count, count + 1);
}
