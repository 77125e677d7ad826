// Which rows of a long list are drawn. Heights are guessed until they were measured.

export interface Heights {
  guess: (row: number) => number;
  measured: ReadonlyMap<string, number>;
}

/** Where each row begins; the last entry is the height of all. */
export function offsets(keys: readonly string[], heights: Heights): Float64Array {
  const out = new Float64Array(keys.length + 1);
  let sum = 0;
  keys.forEach((key, row) => {
    out[row] = sum;
    sum += heights.measured.get(key) ?? heights.guess(row);
  });
  out[keys.length] = sum;
  return out;
}

/** The row at this height: the last that begins at or before it. */
export function rowAt(offsets: Float64Array, y: number): number {
  let low = 0;
  let high = Math.max(0, offsets.length - 2);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((offsets[middle] ?? 0) <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

export interface Window {
  first: number;
  /** Not included. */
  end: number;
  above: number;
  below: number;
}

export function windowOf(offsets: Float64Array, top: number, height: number, spare: number): Window {
  const count = offsets.length - 1;
  if (count === 0) return { first: 0, end: 0, above: 0, below: 0 };
  const first = rowAt(offsets, Math.max(0, top - spare));
  const end = Math.min(count, rowAt(offsets, top + height + spare) + 1);
  const all = offsets[count] ?? 0;
  return { first, end, above: offsets[first] ?? 0, below: all - (offsets[end] ?? all) };
}
