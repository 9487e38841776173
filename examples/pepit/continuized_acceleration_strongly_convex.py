"""The continuized acceleration of strongly convex functions, as an example for PEPit.

It stands by itself, in the form of PEPit's continuous-time models, and needs PEPit alone.
"""

from math import sqrt

from PEPit import PEP
from PEPit.functions import SmoothStronglyConvexFunction


def wc_continuized_acceleration_strongly_convex(
    mu, L, psd=True, wrapper="cvxpy", solver=None, verbose=1
):
    r"""
    Consider the convex minimization problem

    .. math:: f_\star \triangleq \min_{x\in\mathbb{R}^d} f(x),

    where :math:`f` is :math:`L`-smooth and :math:`\mu`-strongly convex.

    This code computes a worst-case guarantee for the **continuized acceleration** [1]: two points
    that drift along a linear differential equation and take gradient steps at the times of a
    Poisson process of rate 1. It computes the smallest :math:`\tau(\mu, L)` such that

    .. math:: \mathcal{A}\mathcal{V}_P(X, Z) \leqslant \tau(\mu, L)\, \mathcal{V}_P(X, Z)

    for all such :math:`f` and all :math:`(X, Z)`, where :math:`\mathcal{A}` is the generator of the
    process, :math:`\frac{d}{dt}\mathbb{E}\mathcal{V}_P(X_t, Z_t) =
    \mathbb{E}\mathcal{A}\mathcal{V}_P(X_t, Z_t)`, and

    .. math:: \mathcal{V}_P(X, Z) = f(X) - f_\star
              + (X - x_\star, Z - x_\star)^T (P \otimes I_d) (X - x_\star, Z - x_\star).

    Hence :math:`\mathbb{E}\mathcal{V}_P(X_t, Z_t) \leqslant e^{\tau t}\, \mathcal{V}_P(X_0, Z_0)`.

    **Algorithm**:
    Between the events of the Poisson process,

        .. math:: \frac{d}{dt}X_t = \eta (Z_t - X_t), \qquad \frac{d}{dt}Z_t = \eta (X_t - Z_t),

    and at an event, with the gradient at :math:`X` just before it,

        .. math:: X \leftarrow X - \frac{1}{L} \nabla f(X), \qquad
                  Z \leftarrow Z - \frac{1}{\sqrt{\mu L}} \nabla f(X),

    where :math:`\eta = \sqrt{\mu / L}`. As the differential equation has a closed-form solution, so
    has the algorithm at the events: it is a randomized Nesterov acceleration.

    **Theoretical guarantee**:

        With :math:`P = \begin{pmatrix} 0 & 0 \\ 0 & \mu / 2 \end{pmatrix}` (``psd=True``), [1,
        Theorem 3] has

        .. math:: \mathcal{A}\mathcal{V}_P \leqslant - \sqrt{\frac{\mu}{L}}\, \mathcal{V}_P,

        which is tight in the limit of large :math:`L / \mu`.

        With :math:`\nu = \frac{8}{9 + 3 \eta}` and :math:`P = \frac{\nu\mu}{16}
        \begin{pmatrix} -7 & 3 \\ 3 & 9 \end{pmatrix}` (``psd=False``), which is not positive
        semidefinite while :math:`\mathcal{V}_P \geqslant (1 - \nu) (f - f_\star)`, and
        :math:`L \geqslant 7.04 \mu`, [2, Theorem A] has the **tight** guarantee

        .. math:: \mathcal{A}\mathcal{V}_P \leqslant -\frac{4}{3} \sqrt{\frac{\mu}{L}}\,
                  \mathcal{V}_P.

    **References**:

    `[1] R. Berthier, F. Bach, N. Flammarion, P. Gaillard, A. Taylor (2021).
    A continuized view on Nesterov acceleration.
    <https://arxiv.org/pdf/2102.06035.pdf>`_

    [2] The documentation of the package ``continuized``: sharper theorems, with their proofs.

    Args:
        mu (float): the strong convexity parameter.
        L (float): the smoothness parameter.
        psd (boolean): whether :math:`P` is positive semidefinite: the :math:`\mathcal{V}_P` of [1],
                       and of [2] otherwise.
        wrapper (str): the name of the wrapper to be used.
        solver (str): the name of the solver the wrapper should use.
        verbose (int): level of information details to print.

                        - -1: No verbose at all.
                        - 0: This example's output.
                        - 1: This example's output + PEPit information.
                        - 2: This example's output + PEPit information + solver details.

    Returns:
        pepit_tau (float): worst-case value.
        theoretical_tau (float): theoretical value.

    Example:
        >>> pepit_tau, theoretical_tau = wc_continuized_acceleration_strongly_convex(
        ...     mu=0.1, L=1, verbose=0)
    """
    # Instantiate PEP
    problem = PEP()

    # Declare a smooth strongly convex function
    func = problem.declare_function(SmoothStronglyConvexFunction, mu=mu, L=L)

    # Start by defining its unique optimal point xs = x_* and corresponding function value fs = f_*
    xs = func.stationary_point()
    fs = func(xs)

    # Then define the state of the process: any two points
    x = problem.set_initial_point()
    z = problem.set_initial_point()
    g, fx = func.oracle(x)

    # The drift between events, and the state after an event
    eta = sqrt(mu / L)
    x_dot, z_dot = eta * (z - x), eta * (x - z)
    x_next, z_next = x - g / L, z - g / sqrt(mu * L)

    # The Lyapunov function, as its quadratic part and the derivative of that along the drift
    if psd:

        def quadratic(x, z):
            return mu / 2 * (z - xs) ** 2

        quadratic_dot = mu * (z - xs) * z_dot
        theoretical_tau = -eta
    else:
        nu = 8 / (9 + 3 * eta)

        def quadratic(x, z):
            return nu * mu * (((x + 3 * z) / 4 - xs) ** 2 - (x - xs) ** 2 / 2)

        quadratic_dot = (
            nu * mu * (2 * ((x + 3 * z) / 4 - xs) * (x_dot + 3 * z_dot) / 4 - (x - xs) * x_dot)
        )
        theoretical_tau = -4 / 3 * eta

    lyap = fx - fs + quadratic(x, z)
    drift = g * x_dot + quadratic_dot
    jump = func(x_next) - fx + quadratic(x_next, z_next) - quadratic(x, z)

    # Set the Lyapunov function to 1, and maximize its mean rate of change: events come at rate 1
    problem.set_initial_condition(lyap == 1)
    problem.set_performance_metric(drift + jump)

    # Solve the PEP
    pepit_verbose = max(verbose, 0)
    pepit_tau = problem.solve(wrapper=wrapper, solver=solver, verbose=pepit_verbose)

    # Print conclusion if required
    if verbose != -1:
        print("*** Example file: worst-case performance of the continuized acceleration ***")
        print(f"\tPEPit guarantee:\t d/dt E V(X_t, Z_t) <= {pepit_tau:.6} E V(X_t, Z_t)")
        print(
            f"\tTheoretical guarantee:\t d/dt E V(X_t, Z_t) <= {theoretical_tau:.6} E V(X_t, Z_t)"
        )

    # Return the worst-case guarantee of the evaluated method (and the reference theoretical value)
    return pepit_tau, theoretical_tau


if __name__ == "__main__":
    pepit_tau, theoretical_tau = wc_continuized_acceleration_strongly_convex(mu=0.1, L=1)
