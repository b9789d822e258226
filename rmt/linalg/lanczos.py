"""Block Lanczos for a symmetric operator, with full reorthogonalisation and some vectors locked."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

__all__ = ["Lanczos"]

EPS = float(np.finfo(np.float64).eps)
BREAKDOWN = 1e3 * EPS  # a direction this small against the operator is none
CANDIDATES = 64
LARGE = 1e60


class Lanczos:
    """The spaces span{Y, Z', M'Z', M'^2 Z', ...}, M' = P M P, P = I - Y Y^T, Z' = P Z, grown one product at a time.

    locked: Y (n, l) orthonormal, and `images` = M Y. start: Z (n, b). All float64; the products need not be exact:
    `rounding` is the Frobenius norm of what breaks the symmetry of the projected matrix, an estimate of their error.
    """

    def __init__(
        self, product: Callable, locked: np.ndarray, images: np.ndarray, start: np.ndarray, scale: float = 0.0
    ) -> None:
        self.n, self.locked = locked.shape
        self.products = 0
        self.exhausted = False  # the space is invariant: M' has nothing more to show to this start
        self.scale = scale
        self._product = product
        self._store = np.array(locked, order="F")  # columns beyond the filled ones are room to grow
        self._filled = self.locked
        coupling = locked.T @ images
        self._projected = (coupling + coupling.T) / 2
        self._asymmetry = float(np.sum((coupling - coupling.T) ** 2)) / 2
        self._tails = images - locked @ coupling
        self._diagonal: list[np.ndarray] = []  # A_j
        self._below: list[np.ndarray] = []  # B_j
        Z = start - self._basis @ (self._basis.T @ start)
        self._next, self._start_factor = self._orthonormal(Z, float(np.linalg.norm(start)))

    @property
    def size(self) -> int:
        """Dimension of the space whose image is known."""
        return len(self._projected)

    @property
    def _basis(self) -> np.ndarray:
        return self._store[:, : self._filled]

    def _append(self, V: np.ndarray) -> None:
        needed = self._filled + V.shape[1]
        if needed > self._store.shape[1]:
            larger = np.empty((self.n, min(2 * needed + 16, self.n)), order="F")
            larger[:, : self._filled] = self._basis
            self._store = larger
        self._store[:, self._filled : needed] = V
        self._filled = needed

    @property
    def rounding(self) -> float:
        return float(np.sqrt(self._asymmetry)) + EPS * self.scale

    def grow(self) -> None:
        """One block product."""
        V, at = self._next, self.size
        width = V.shape[1]
        if width == 0:  # an invariant space: go on from the unit vector that it covers least
            V = np.zeros((self.n, 1))
            V[np.argmin(np.einsum("ij,ij->i", self._basis, self._basis)), 0] = 1.0
            V, _ = self._orthonormal(V - self._basis @ (self._basis.T @ V), 1.0)
            width = 1
            self._below[-1] = np.zeros((1, self._below[-1].shape[1]))
        W = np.array(self._product(V), dtype=np.float64).reshape(self.n, width)
        self.products += width
        if not np.isfinite(W).all():
            raise ArithmeticError("a product with the Gram matrix holds NaN or infinity: check the matrix entries")
        self.scale = max(self.scale, float(np.linalg.norm(W, axis=0).max()))
        self._append(V)
        Q = self._basis
        h = Q.T @ W
        W -= Q @ h
        again = Q.T @ W
        W -= Q @ again
        h += again
        expected = np.zeros((at, width))
        expected[: self.locked] = self._tails.T @ V
        if self._below:
            expected[at - self._below[-1].shape[1] :] = self._below[-1].T
        own = (h[at:] + h[at:].T) / 2
        self._asymmetry += float(np.sum((h[:at] - expected) ** 2) + np.sum((h[at:] - own) ** 2))
        self._projected = np.block([[self._projected, expected], [expected.T, own]])
        self._diagonal.append(own)
        self._next, below = self._orthonormal(W, self.scale)
        self._below.append(below)
        self.exhausted = self.exhausted or self._next.shape[1] == 0

    def ritz(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ritz values, descending, their coordinates (size, size), and the norms of their residuals."""
        theta, s = np.linalg.eigh(self._projected)
        theta, s = theta[::-1], s[:, ::-1]
        residual = np.zeros(len(theta))
        if self._below:
            last = self._below[-1]
            residual += np.linalg.norm(last @ s[len(s) - last.shape[1] :], axis=0)
        if self.locked:
            inside = np.sum(self._projected[self.locked :, : self.locked] ** 2, axis=0)
            outside = np.sqrt(np.maximum(np.sum(self._tails**2, axis=0) - inside, 0.0))
            residual += outside @ np.abs(s[: self.locked])
        return theta, s, residual

    def vectors(self, coordinates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(X, M X) for X = basis @ coordinates; without locked vectors only. No product is needed."""
        width = self._below[-1].shape[1]
        image = self._basis @ (self._projected @ coordinates)
        return self._basis @ coordinates, image + self._next @ (self._below[-1] @ coordinates[-width:])

    def missed_level(self, overlap_squared: float) -> float:
        """The smallest mu such that no eigenvalue of M' above mu has an eigenvector w with |Z^T w|^2 >= overlap_squared.

        From B_j^T c_{j+1} = (mu - A_j) c_j - B_{j-1} c_{j-1}, c_j = V_j^T w, c_0 = R^-T Z^T w and sum |c_j|^2 <= 1.
        """
        inner = self._projected[self.locked :, self.locked :]
        top = float(np.linalg.eigvalsh(inner)[-1]) if len(inner) else 0.0
        if self.exhausted or not len(inner):
            return max(top, 0.0) + self.rounding
        low, high = 0.0, 64.0 * max(self.scale, top) - top
        steps = [np.linalg.pinv(B.T) for B in self._below]
        for _ in range(3):  # each round narrows the bracket CANDIDATES-fold at least
            offsets = low + (high - low) * np.linspace(0, 1, CANDIDATES) ** 2
            allowed = np.flatnonzero(self._least_mass(top + offsets, steps) * overlap_squared <= 1.0)
            first = int(allowed[-1]) + 1 if len(allowed) else 1
            if first == CANDIDATES:
                return np.inf
            low, high = float(offsets[first - 1]), float(offsets[first])
        return top + high + self.rounding

    def _least_mass(self, mu: np.ndarray, steps: list[np.ndarray]) -> np.ndarray:
        """Smallest sum_j |c_j|^2 per unit |Z^T w|^2, for each mu; `steps` are the inverses of the B_j^T."""
        inverse = np.linalg.pinv(self._start_factor).T
        shape = (len(mu), *inverse.shape)
        before, now = np.zeros(shape), np.broadcast_to(inverse, shape)
        total = np.swapaxes(now, 1, 2) @ now
        for j, (A, step) in enumerate(zip(self._diagonal, steps, strict=True)):
            right = mu[:, None, None] * now - A @ now
            if j:
                right = right - self._below[j - 1] @ before
            before, now = now, step @ right
            enough = np.abs(total).max(axis=(1, 2), keepdims=True) > LARGE  # partial sums are bounds too
            before, now = np.where(enough, 0.0, before), np.where(enough, 0.0, now)
            total = total + np.swapaxes(now, 1, 2) @ now
        return np.linalg.eigvalsh(total)[:, 0]

    def _orthonormal(self, W: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray]:
        """W = V B with V orthonormal and orthogonal to the basis; directions below BREAKDOWN * scale are dropped."""
        room = self.n - self._basis.shape[1]
        V, B = np.linalg.qr(W)
        smallest = np.abs(np.diag(B)).min(initial=np.inf)
        if smallest <= BREAKDOWN * scale or V.shape[1] > room:
            U, sigma, Wt = np.linalg.svd(B)
            keep = min(int(np.sum(sigma > BREAKDOWN * scale)), room)
            V, B = V @ U[:, :keep], sigma[:keep, None] * Wt[:keep]
        if V.shape[1] and smallest <= 1e-6 * scale:
            V, turn = np.linalg.qr(V - self._basis @ (self._basis.T @ V))
            B = turn @ B
        return V, B
