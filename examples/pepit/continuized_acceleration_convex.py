"""The continuized acceleration of convex functions, as an example for PEPit.

It stands by itself, in the form of PEPit's continuous-time models, and needs PEPit alone.
"""

from PEPit import PEP
from PEPit.functions import SmoothConvexFunction


def wc_continuized_acceleration_convex(t, L, wrapper="cvxpy", solver=None, verbose=1):
    r"""
    Consider the convex minimization problem

    .. math:: f_\star \triangleq \min_{x\in\mathbb{R}^d} f(x),

    where :math:`f` is :math:`L`-smooth and convex.

    This code computes a worst-case guarantee for the **continuized acceleration** [1]: two points
    that drift along a linear differential equation and take gradient steps at the times of a
    Poisson process of rate 1. It computes the smallest :math:`\tau(t, L)` such that

    .. math:: \frac{\partial}{\partial t} \mathcal{V}(t, X, Z) + \mathcal{A}_t\mathcal{V}(t, X, Z)
              \leqslant \tau(t, L)\, \mathcal{V}(t, X, Z)

    for all such :math:`f` and all :math:`(X, Z)`, where :math:`\mathcal{A}_t` is the generator of
    the process at the time :math:`t`, and

    .. math:: \mathcal{V}(t, X, Z) = t^2 (f(X) - f_\star) + 2 L \|Z - x_\star\|^2.

    Where :math:`\tau = 0` for all :math:`t`, :math:`\mathcal{V}(t, X_t, Z_t)` is a supermartingale,
    and :math:`\mathbb{E} f(X_t) - f_\star \leqslant 2 L \|Z_0 - x_\star\|^2 / t^2`.

    **Algorithm**:
    Between the events of the Poisson process,

        .. math:: \frac{d}{dt}X_t = \frac{2}{t} (Z_t - X_t), \qquad \frac{d}{dt}Z_t = 0,

    and at an event at time :math:`t`, with the gradient at :math:`X` just before it,

        .. math:: X \leftarrow X - \frac{1}{L} \nabla f(X), \qquad
                  Z \leftarrow Z - \frac{t}{2 L} \nabla f(X).

    **Theoretical guarantee**:

        The following **tight** guarantee is [1, Theorem 3]: for all :math:`t > 0`,

        .. math:: \frac{\partial}{\partial t} \mathcal{V} + \mathcal{A}_t\mathcal{V} \leqslant 0.

    **References**:

    `[1] R. Berthier, F. Bach, N. Flammarion, P. Gaillard, A. Taylor (2021).
    A continuized view on Nesterov acceleration.
    <https://arxiv.org/pdf/2102.06035.pdf>`_

    Args:
        t (float): the time.
        L (float): the smoothness parameter.
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
        >>> pepit_tau, theoretical_tau = wc_continuized_acceleration_convex(t=3.4, L=1, verbose=0)
    """
    # Instantiate PEP
    problem = PEP()

    # Declare a smooth convex function
    func = problem.declare_function(SmoothConvexFunction, L=L)

    # Start by defining an optimal point xs = x_* and corresponding function value fs = f_*
    xs = func.stationary_point()
    fs = func(xs)

    # Then define the state of the process: any two points
    x = problem.set_initial_point()
    z = problem.set_initial_point()
    g, fx = func.oracle(x)

    # The drift between events, and the state after an event
    x_dot = 2 / t * (z - x)
    x_next, z_next = x - g / L, z - t / (2 * L) * g

    # The Lyapunov function, its change with time and along the drift, and its change at an event,
    # all three divided by t^2: solvers like numbers of one size
    lyap = fx - fs + 2 * L / t**2 * (z - xs) ** 2
    drift = 2 / t * (fx - fs) + g * x_dot
    jump = func(x_next) - fx + 2 * L / t**2 * ((z_next - xs) ** 2 - (z - xs) ** 2)

    # Set the Lyapunov function to 1, and maximize its mean rate of change: events come at rate 1
    problem.set_initial_condition(lyap == 1)
    problem.set_performance_metric(drift + jump)

    # Solve the PEP
    pepit_verbose = max(verbose, 0)
    pepit_tau = problem.solve(wrapper=wrapper, solver=solver, verbose=pepit_verbose)

    # Compute theoretical guarantee (for comparison)
    theoretical_tau = 0.0

    # Print conclusion if required
    if verbose != -1:
        print("*** Example file: worst-case performance of the continuized acceleration ***")
        print(f"\tPEPit guarantee:\t d/dt E V(t, X, Z) <= {pepit_tau:.6} E V(t, X, Z)")
        print(f"\tTheoretical guarantee:\t d/dt E V(t, X, Z) <= {theoretical_tau:.6}")

    # Return the worst-case guarantee of the evaluated method (and the reference theoretical value)
    return pepit_tau, theoretical_tau


if __name__ == "__main__":
    pepit_tau, theoretical_tau = wc_continuized_acceleration_convex(t=3.4, L=1)
