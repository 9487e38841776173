"""PyTorch's own helpers for tests of optimizers, run on ours.

The wheel of PyTorch ships the helpers (`torch.testing._internal.common_optimizers`: the options,
the errors that every optimizer must raise, the tracker of tensors, the machine that makes a test
for each optimizer and type), not the tests; these follow the same patterns.
"""

# ruff: noqa: PT009, PT027 (the comparisons of PyTorch's TestCase know tensors in containers)

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_optimizers import (
    ErrorOptimizerInput,
    OptimizerErrorEnum,
    OptimizerInfo,
    OptimizerInput,
    TensorTracker,
    _get_optim_inputs_including_global_cliquey_kwargs,
    get_error_inputs_for_all_optims,
    optims,
)
from torch.testing._internal.common_utils import TestCase

from continuized.adapters.torch import Continuized

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def inputs(device: str, dtype: Any = None) -> list[OptimizerInput]:
    options: dict[str, dict[str, Any]] = {
        "default": {"lr": 1e-2},
        "Tensor lr": {"lr": torch.tensor(1e-2)},
        "zero lr": {"lr": 0.0},
        "mu": {"lr": 1e-2, "mu": 0.5},
        "mu and start": {"lr": 1e-2, "mu": 0.5, "start": 0.0},
        "sharp": {"lr": 1e-2, "mu": 0.5, "method": "sharp"},
        "weight_decay": {"lr": 1e-2, "weight_decay": 0.1},
        "maximize": {"lr": 1e-2, "maximize": True, "mu": 0.5, "weight_decay": 0.1},
        "skip": {"lr": 1e-2, "nonfinite": "skip"},
    }
    return [OptimizerInput(params=None, kwargs=k, desc=name) for name, k in options.items()]


def errors(device: str, dtype: Any) -> list[ErrorOptimizerInput]:
    given = OptimizerInput(params=None, kwargs={"lr": -1.0}, desc="negative lr")
    ours = ErrorOptimizerInput(given, error_type=ValueError, error_regex="lr must be")
    return [*get_error_inputs_for_all_optims(device, dtype), ours]


INFO = OptimizerInfo(
    Continuized,
    optim_inputs_func=inputs,
    optim_error_inputs_func=errors,
    supported_impls=("foreach",),
    not_og_supported_flags=(),
    supports_complex=False,
)


class TestContract(TestCase):
    def configurations(self, device: str, info: OptimizerInfo) -> list[OptimizerInput]:
        return _get_optim_inputs_including_global_cliquey_kwargs(device, None, info)

    def regression(self, device: str, dtype: torch.dtype) -> tuple[list[torch.Tensor], Any]:
        """The parameters of a linear layer, and a function that gives them their gradients."""
        rng = torch.Generator(device).manual_seed(0)
        data, weight, bias = (
            torch.randn(shape, generator=rng, device=device) for shape in [(20, 5), (10, 5), (10,)]
        )
        params = [torch.nn.Parameter(weight.to(dtype)), torch.nn.Parameter(bias.to(dtype))]

        def closure() -> torch.Tensor:
            params[0].grad = params[1].grad = None
            # In float32: on a CPU, products of matrices in half precision are slow.
            out = torch.nn.functional.linear(data, *(p.float() for p in params))
            loss = (out**2).sum(1).mean()
            loss.backward()
            return loss

        return params, closure

    @optims([INFO], dtypes=[torch.float32])
    def test_errors(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        for case in optim_info.optim_error_inputs_func(device, dtype):
            given = case.optimizer_error_input
            self.assertEqual(case.error_on, OptimizerErrorEnum.CONSTRUCTION_ERROR)
            params = self.regression(device, dtype)[0] if given.params is None else given.params
            if issubclass(case.error_type, Warning):
                with self.assertWarnsRegex(case.error_type, case.error_regex):
                    optim_info.optim_cls(params, **given.kwargs)
            else:
                with self.assertRaisesRegex(case.error_type, case.error_regex):
                    optim_info.optim_cls(params, **given.kwargs)

    @optims([INFO], dtypes=FLOATS)
    def test_goes_the_right_way(
        self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo
    ) -> None:
        """With every scheduler that the helper proposes, and without."""
        for case in self.configurations(device, optim_info):
            for make_scheduler in [None, *optim_info.scheduler_inputs[0]]:
                params, closure = self.regression(device, dtype)
                optimizer = optim_info.optim_cls(params, **deepcopy(case.kwargs))
                scheduler = None if make_scheduler is None else make_scheduler(optimizer)
                first = closure().item()
                for _ in range(20):
                    loss = optimizer.step(closure)
                    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
                        scheduler.step(loss.item())
                    elif scheduler is not None:
                        scheduler.step()
                last = closure().item()
                if case.kwargs["lr"] == 0.0:
                    self.assertEqual(last, first)
                elif case.kwargs.get("maximize"):
                    self.assertGreater(last, first)
                else:
                    self.assertLess(last, first)

    @optims([INFO], dtypes=FLOATS)
    def test_foreach_matches_the_loop(
        self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo
    ) -> None:
        for case in optim_info.optim_inputs_func(device):
            tracker = TensorTracker({"rtol": 0, "atol": 0})
            for foreach in (False, True):
                params, closure = self.regression(device, dtype)
                optimizer = optim_info.optim_cls(params, foreach=foreach, **case.kwargs)
                for _ in range(7):
                    optimizer.step(closure)
                    for p in params:
                        for t in (p, *optimizer.state[p].values()):
                            if foreach:
                                tracker.pop_check_set(t, self)
                            else:
                                tracker.add(t)
            self.assertTrue(tracker.all_popped())

    @optims([INFO], dtypes=FLOATS)
    def test_dtype_shape_and_layout_are_kept(
        self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo
    ) -> None:
        for case in self.configurations(device, optim_info):
            params, closure = self.regression(device, dtype)
            before = [(p.dtype, p.shape, p.stride(), p.data_ptr()) for p in params]
            optimizer = optim_info.optim_cls(params, **case.kwargs)
            optimizer.step(closure)
            after = [(p.dtype, p.shape, p.stride(), p.data_ptr()) for p in params]
            self.assertEqual(after, before)
            for p in params:
                for t in optimizer.state[p].values():
                    self.assertEqual((t.dtype, t.shape, t.stride()), (dtype, p.shape, p.stride()))
                    self.assertFalse(t.requires_grad)

    @optims([INFO], dtypes=[torch.float32])
    def test_state_dicts(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        """Loading gives the same state, and the same steps."""
        for case in self.configurations(device, optim_info):
            params, closure = self.regression(device, dtype)
            optimizer = optim_info.optim_cls(params, **case.kwargs)
            for _ in range(3):
                optimizer.step(closure)
            others, other_closure = self.regression(device, dtype)
            other = optim_info.optim_cls(others, **case.kwargs)
            for p, q in zip(params, others, strict=True):
                q.data.copy_(p)
            other.load_state_dict(deepcopy(optimizer.state_dict()))
            self.assertEqual(other.state_dict(), optimizer.state_dict(), rtol=0, atol=0)
            for _ in range(3):
                optimizer.step(closure)
                other.step(other_closure)
            self.assertEqual(others, params, rtol=0, atol=0)

    @optims([INFO], dtypes=[torch.float32])
    def test_deep_copies(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        for case in self.configurations(device, optim_info):
            params, closure = self.regression(device, dtype)
            optimizer = optim_info.optim_cls(params, **case.kwargs)
            for _ in range(2):
                optimizer.step(closure)
            public = {name for name in vars(optimizer) if not name.startswith("_")}
            copied = deepcopy(optimizer)
            self.assertEqual({name for name in vars(copied) if not name.startswith("_")}, public)
            self.assertEqual(copied.state_dict(), optimizer.state_dict(), rtol=0, atol=0)

    @optims([INFO], dtypes=[torch.float32])
    def test_zero_and_missing_gradients_do_nothing_at_the_start(
        self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo
    ) -> None:
        for case in self.configurations(device, optim_info):
            for missing in (False, True):
                params, _ = self.regression(device, dtype)
                before = [p.detach().clone() for p in params]
                options = {**case.kwargs, "weight_decay": 0.0}
                optimizer = optim_info.optim_cls(params, **options)
                for p in params:
                    p.grad = None if missing else torch.zeros_like(p)
                for _ in range(3):
                    optimizer.step()
                self.assertEqual([p.detach() for p in params], before, rtol=0, atol=0)

    @optims([INFO], dtypes=[torch.float32])
    def test_hooks(self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo) -> None:
        calls: list[str] = []
        params, closure = self.regression(device, dtype)
        optimizer = optim_info.optim_cls(params)
        optimizer.register_step_pre_hook(lambda *_: calls.append("before a step"))
        optimizer.register_step_post_hook(lambda *_: calls.append("after a step"))
        optimizer.register_state_dict_pre_hook(lambda *_: calls.append("before state_dict"))
        optimizer.register_load_state_dict_post_hook(lambda *_: calls.append("after a load"))
        optimizer.step(closure)
        optimizer.load_state_dict(optimizer.state_dict())
        expected = ["before a step", "after a step", "before state_dict", "after a load"]
        self.assertEqual(calls, expected)

    @optims([INFO], dtypes=[torch.float32])
    def test_named_parameters_in_groups(
        self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo
    ) -> None:
        (weight, bias), closure = self.regression(device, dtype)
        groups = [{"params": [("w", weight)], "lr": 1e-3}, {"params": [("b", bias)]}]
        optimizer = optim_info.optim_cls(groups, lr=1e-2)
        first = optimizer.step(closure).item()
        for _ in range(20):
            last = optimizer.step(closure).item()
        self.assertLess(last, first)
        self.assertEqual([g["param_names"] for g in optimizer.param_groups], [["w"], ["b"]])
        self.assertEqual([g["time_lr"] for g in optimizer.param_groups], [1e-3, 1e-2])
        state = deepcopy(optimizer.state_dict())
        for group in state["param_groups"]:
            group["lr"] = 5e-3
        optimizer.load_state_dict(state)
        self.assertEqual([g["lr"] for g in optimizer.param_groups], [5e-3, 5e-3])

    @optims([INFO], dtypes=[torch.float32])
    def test_gradient_scaling(
        self, device: str, dtype: torch.dtype, optim_info: OptimizerInfo
    ) -> None:
        """A step that the scaler takes back is no event; the others are as without it."""
        (params, closure), (others, other_closure) = (
            self.regression(device, dtype) for _ in range(2)
        )
        optimizer, other = (optim_info.optim_cls(ps, lr=1e-2) for ps in (params, others))
        scaler = torch.amp.GradScaler(device, init_scale=2.0**10)
        for k in range(6):
            closure()
            for p in params:
                p.grad *= scaler.scale(torch.ones(()))
            if k == 2:
                params[0].grad[0, 0] = torch.inf
            else:
                other.step(other_closure)
            scaler.step(optimizer)
            scaler.update()
        self.assertEqual((optimizer.param_groups[0]["k"], optimizer.skipped), (5, 0))
        self.assertEqual(params, others, rtol=0, atol=0)


instantiate_device_type_tests(TestContract, globals(), only_for="cpu")
