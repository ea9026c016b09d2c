"""Programs of the IR as texts, and arguments for each: the shapes that users write."""

from __future__ import annotations

import numpy as np

random = np.random.default_rng(7)


def floats(*shape: int) -> np.ndarray:
    return random.uniform(0.3, 1.4, shape)


N, M, K = 5, 4, 3

PAIRWISE = """
    func @pairwise(%x: f64[n, 3], %m: f64[n]) -> (%e: f64) {
      %d = reduce sum (i < n, j < n | k < 3) {
        d = %x[i, k] - %x[j, k]
        d * d
      }
      %e = reduce sum (| i < n, j < n) { %m[i] * %m[j] / sqrt(%d[i, j] + 0.01) }
    }"""
UNROLLED = """
    func @unrolled(%x: f64[n, 3], %m: f64[n]) -> (%e: f64) {
      %e = reduce sum (| i < n, j < n) {
        a = %x[i, 0] - %x[j, 0]
        b = %x[i, 1] - %x[j, 1]
        c = %x[i, 2] - %x[j, 2]
        s = a * a + b * b + c * c
        %m[i] * %m[j] * exp(-s)
      }
    }"""
TRIANGLE = """
    func @triangle(%x: f64[n]) -> (%e: f64) {
      %e = reduce sum (| i < n, j < n) { select(j < i, sqrt(abs(%x[i] - %x[j])), 0.0) }
    }"""
GATHER = """
    func @gather(%x: f64[n], %w: f64[m], %idx: i64[n]) -> (%e: f64, %r: f64[n]) {
      %e = reduce sum (| i < n) {
        w = %w[%idx[i]]
        w * w * sin(%x[i])
      }
      %r = array (i < n) { exp(%w[%idx[i]]) * %x[i] }
    }"""
OFFSETS = """
    func @offsets(%x: f64[n]) -> (%e: f64, %d: f64[n]) {
      %e = reduce sum (| i < n) {
        d = %x[i + 1] - %x[i]
        select(i < n - 1, d * d * d, 0.0)
      }
      %d = array (i < n) { select(i > 0, %x[i] * %x[i - 1], %x[i]) }
    }"""
SOFTMAX = """
    func @softmax(%x: f64[n, m]) -> (%y: f64[n, m], %l: f64[n]) {
      %h = reduce max (i < n | j < m) { %x[i, j] }
      %z = reduce sum (i < n | j < m) { exp(%x[i, j] - %h[i]) }
      %y = array (i < n, j < m) { exp(%x[i, j] - %h[i]) / %z[i] }
      %l = array (i < n) { log(%z[i]) + %h[i] }
    }"""
COLUMNS = """
    func @columns(%x: f64[n, m], %w: f64[m]) -> (%r: f64[m], %s: f64) {
      %c = reduce sum (j < m | i < n) { exp(%x[i, j]) * %w[j] }
      %r = array (j < m) { %c[j] * %c[j] }
      %s = reduce sum (| i < n, j < m) { %x[i, j] * %c[j] }
    }"""
EXTREMES = """
    func @extremes(%x: f64[n, m]) -> (%a: f64[m], %b: f64[n], %c: f64) {
      %a = reduce min (j < m | i < n) { %x[i, j] * %x[i, j] }
      %h = reduce max (i < n | j < m) { sin(%x[i, j]) }
      %b = array (i < n) { %h[i] * %h[i] }
      %c = reduce max (| i < n, j < m) { exp(%x[i, j]) }
    }"""
LAYERNORM = """
    func @layernorm(%x: f64[n, m], %g: f64[m], %b: f64[m]) -> (%y: f64[n, m]) {
      %s = reduce sum (i < n | j < m) { %x[i, j] / f64(m) }
      %v = reduce sum (i < n | j < m) {
        d = %x[i, j] - %s[i]
        d * d / f64(m)
      }
      %y = array (i < n, j < m) { %g[j] * (%x[i, j] - %s[i]) / sqrt(%v[i] + 0.001) + %b[j] }
    }"""
HISTOGRAM = """
    func @histogram(%x: f64[n], %w: f64[m], %bin: i64[n]) -> (%h: f64[m], %e: f64) {
      %h = accumulate [m] (i < n) { [%bin[i]] += %x[i] * %x[i] }
      %e = reduce sum (| k < m) { sqrt(%h[k] + 1.0) * %w[k] }
    }"""
SCATTER_ROWS = """
    func @rows(%x: f64[n, m], %to: i64[n]) -> (%h: f64[m, n]) {
      %h = accumulate [m, n] (i < n, j < m) { [j, %to[i]] += exp(%x[i, j]) }
    }"""
BROADCAST = """
    func @broadcast(%a: f64[n, 1], %b: f64[1, m], %c: f64[1, 1], %d: f64) -> (%r: f64[n, m], %s: f64[1, m]) {
      %r = array (i < n, j < m) { tanh(%a[i, 0] * %b[0, j]) + %c[0, 0] * %d }
      %s = reduce sum (o < 1, j < m | i < n) { %r[i, j] * %c[o, 0] }
    }"""
TWICE = """
    func @twice(%x: f64[n], %y: f64) -> (%x: f64[n], a = %r: f64[n], b = %r: f64[n], %z: f64, c = %z: f64) {
      %r = array (i < n) { sin(%x[i]) * %y }
      %z = array () { exp(%y) * %y }
    }"""
SCALARS = """
    func @scalars(%a: f64, %b: f64) -> (%r: f64, %s: f64) {
      %p = array () { sin(%a) * %b }
      %r = array () { %p * %p + %a }
      %s = array () { %p / %b }
    }"""
SHARED_GUARDS = """
    func @guards(%x: f64[n], %y: f64[n]) -> (%r: f64[n]) {
      %r = array (i < n) {
        s = sqrt(%x[i] * %y[i])
        a = select(%x[i] > 0.6, s * s * s, exp(%y[i]))
        select(%y[i] > 0.7, a * s, s + select(%x[i] > 0.9, log(%x[i]) * s, 0.0))
      }
    }"""
TRANSPOSED = """
    func @transposed(%x: f64[n, n], %v: f64[n]) -> (%r: f64[n, n], %q: f64) {
      %r = array (i < n, j < n) { %x[i, j] * %x[j, i] }
      %q = reduce sum (| i < n, j < n) { %v[i] * %x[i, j] * %v[j] }
      }"""
DIAGONAL = """
    func @diagonal(%x: f64[n, n]) -> (%t: f64, %d: f64[n]) {
      %t = reduce sum (| i < n) { log(%x[i, i]) }
      %d = array (i < n) { %x[i, 0] * %x[n - 1, i] }
    }"""
NESTED = """
    func @nested(%x: f64[n, m], %w: f64[m, 3]) -> (%e: f64) {
      %h = reduce sum (i < n, k < 3 | j < m) { %x[i, j] * %w[j, k] }
      %a = array (i < n, k < 3) { tanh(%h[i, k]) }
      %z = reduce sum (i < n | k < 3) { exp(%a[i, k]) }
      %e = reduce sum (| i < n, k < 3) { %a[i, k] * log(%z[i]) }
    }"""
CUBES = """
    func @cubes(%x: f64[n]) -> (%e: f64) {
      %e = reduce sum (| i < n) { %x[i] ** 3.0 + %x[i] ** -2.0 + (%x[i] ** 2.5) * sin(%x[i]) }
    }"""

STORES = """
    func @stores(%x: f64[n], %w: f64[m], %to: i64[n]) -> (%c: f64[n], %e: f64[n, m]) {
      %a = %x with () { [%to[0]] = sin(%w[1]) * %x[2] if %w[0] > -9.0 }
      %b = %a with (i < n - 2) { [i + 1] = %a[i] * %x[i + 2] }
      %c = %b with (i < n) { [%to[i]] += %x[i] * %b[i] if i < 4 }
      %d = array (i < n, j < m) { %x[i] + %w[j] }
      %e = %d with (i < m) { [n - 2, i] = exp(%w[i]) * %c[1] }
    }"""
STORES_IN_LOOP = """
    func @stores_in_loop(%x: f64[n], %w: f64[m], %to: i64[n]) -> (%r: f64[n], %q: f64[n, m]) {
      %0 = array (i < n, j < m) { %x[i] * %w[j] }
      %r, %q = loop (%t < n) (%r = %x, %q = %0, %to = row %to, %w = all %w) {
        %0 = %r with () { [%t] = sin(%r[%to]) * %w[1] }
        %1 = array () { %0[%t] * %0[%to] }
        %2 = %0 with () { [%to] += %1 }
        %3 = %q with (j < m) { [%to, j] += %w[j] * %2[%t] }
        %4 = %3 with (j < m) { [%t, j] = cos(%3[%to, j]) + %r[%t] if %1 < 0.5 }
        next %2, %4
      }
    }"""

floats_nm, targets = floats(N, M), np.array([2, 0, 2, 1, 0])
CHAINED = """
    func @chained(%x: f64[n]) -> (%r: f64) {
      %0 = array () { 0.0 }
      %1 = array () { 1.0 }
      %b, %q = loop (%t < n) (%b = %0, %q = %1, %x = row %x) {
        %0 = array () { %b + %x * %x }
        %1 = array () { sin(%q + %x) }
        next %0, %1
      }
      %a = loop (%t < n) (%a = %0, %x = row %x, %q = all %q) {
        %0 = array () { %a + cos(%x * %q) }
        next %0
      }
      %r = array () { %a + %b }
    }"""

CASES = {
    CHAINED: (floats(N),),
    PAIRWISE: (floats(N, 3), floats(N)),
    UNROLLED: (floats(N, 3), floats(N)),
    TRIANGLE: (floats(N),),
    GATHER: (floats(N), floats(M), targets),
    OFFSETS: (floats(N),),
    SOFTMAX: (floats(N, M),),
    COLUMNS: (floats(N, M), floats(M)),
    EXTREMES: (floats(N, M),),
    LAYERNORM: (floats(N, M), floats(M), floats(M)),
    HISTOGRAM: (floats(N), floats(M), targets),
    SCATTER_ROWS: (floats(N, M), targets),
    BROADCAST: (floats(N, 1), floats(1, M), floats(1, 1), floats()),
    TWICE: (floats(N), floats()),
    SCALARS: (floats(), floats()),
    SHARED_GUARDS: (floats(N), floats(N)),
    TRANSPOSED: (floats(N, N), floats(N)),
    DIAGONAL: (floats(N, N),),
    NESTED: (floats(N, M), floats(M, 3)),
    CUBES: (floats(N),),
    STORES: (floats(N), floats(M), targets),
    STORES_IN_LOOP: (floats(N), floats(M), targets),
}
