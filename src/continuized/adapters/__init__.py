"""Other libraries' ways of calling the solver: a module for each library, which alone imports it.

from continuized.adapters.sklearn import ContinuizedRidge, ContinuizedLogisticRegression
"""
