"""Statements and calls of definitions, from the syntax tree to values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import nan
from typing import Any, NoReturn, TypeAlias

from adcompiler.errors import DtypeError, Error, LimitError, OutOfRangeError, ParseError, ShapeError, Span
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.grammar.control_flow import Loop, LoopT, appended, assigned, returned, returns
from adcompiler.frontend.indexing.annotations import annotate
from adcompiler.frontend.indexing.iterables import Iterable, iterable, literal, unpacked
from adcompiler.frontend.indexing.masked_stores import Changed, masked, read_anew
from adcompiler.frontend.indexing.scattering import is_mask, updated
from adcompiler.frontend.indexing.sequences import is_display
from adcompiler.frontend.indexing.stored_types import as_updated
from adcompiler.frontend.indexing.subscripts import READ, stored
from adcompiler.frontend.library.builtins import VIEWS
from adcompiler.frontend.library.objects import changes_nothing
from adcompiler.frontend.library.suggestions import alone
from adcompiler.frontend.limits import (
    CALL_DEPTH,
    MOST_BRANCHES,
    MOST_CALLS,
    MOST_NESTED,
    MOST_UNROLLED,
    MOST_UNROLLED_SHAPES,
)
from adcompiler.frontend.lowering.expressions import (
    MEASURES,
    STEPS,
    decided,
    evaluated,
    indices,
    named,
    operated,
    run,
    unsupported,
)
from adcompiler.frontend.lowering.list_append import append, growing, lists_of, refuse_lists, with_one_append
from adcompiler.frontend.lowering.loop_exits import (
    RETURNED,
    Exit,
    is_endless,
    nothing,
    unless,
    without_leaves,
    without_returns,
)
from adcompiler.frontend.lowering.loops import CarriedError, LoopForm, is_live, run_loop
from adcompiler.frontend.lowering.origins_of_trees import located
from adcompiler.frontend.lowering.printing import printed
from adcompiler.frontend.lowering.requirements import require
from adcompiler.frontend.lowering.rule_calls import ruled
from adcompiler.frontend.lowering.ufunc_calls import mapped
from adcompiler.frontend.values.aliases import shared
from adcompiler.frontend.values.modules import ModuleValue
from adcompiler.frontend.values.operations import Context
from adcompiler.frontend.values.rearranging import listed
from adcompiler.frontend.values.values import (
    LOCAL,
    RESULT,
    UNSET,
    AnyValue,
    AppendedList,
    AppendProbe,
    Closure,
    Foreign,
    Frame,
    FunctionValue,
    Listed,
    Unknown,
    Value,
    as_array,
    describe,
    is_number,
)
from adcompiler.ir.nodes import Const, Element, const, is_const
from adcompiler.ir.origins import Within
from adcompiler.ir.walk import postorder
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.build import apply, cast

OTHER_BRANCH = "assign it before the if or in both branches, or read it inside the branch"
Scope: TypeAlias = dict[str, AnyValue]
OWN = "assign it first, pass it as an argument, or use another name for the assigned value"


def seen(closure: Closure) -> dict[str, AnyValue]:
    """The names visible to a definition. Names that its body binds are local from the start, without a
    value."""
    names = dict(closure.scope)
    if isinstance(closure.scope, Frame):
        bound = [n for n in assigned(closure.definition.body, lists=False, stores=False) if n in names]
        own = Foreign(f"assigned later in {closure.name}, so it is a local name without a value here", OWN)
        names.update(dict.fromkeys(bound, own))
    return names


@dataclass(frozen=True, slots=True)
class Returned:
    """A `return` was reached."""

    value: AnyValue


NEVER = Returned(None)  # a `raise` was reached: no value
RAISED: Mapping[str, type[Error]] = {
    "ValueError": ShapeError, "IndexError": OutOfRangeError, "TypeError": DtypeError,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Iteration(tree.Assign):
    """The start of an iteration of an unrolled loop, which assigns its `item` to the loop's variable; without
    a variable, the end of the loop. `within` is the location of the statements after it."""

    within: tuple[Within, ...]
    item: Callable[[dict[str, AnyValue]], AnyValue] | None = None


@cache
def has_loops(definition: tree.Def) -> bool:
    """Whether a definition has loops, which read the values of names repeatedly."""
    nodes = postorder(list[tree.Tree](definition.body), tree.children)
    return any(isinstance(node, tree.For | tree.While | tree.Comprehension) for node in nodes)


class UnrollError(Exception):
    """A loop of a few iterations must be written out, because these change shapes: lowering starts again."""

    def __init__(self, source: Any, span: Span, error: Error) -> None:
        super().__init__(str(error))
        self.place, self.error = (source, span), error


class Lowering(Context):
    """Lowers the body of a definition; `scope` holds the visible names."""

    prints = False  # whether a print statement was lowered
    calls = 0  # the current nesting depth of calls
    total = 0  # the number of calls
    branches = 0  # the number of returning branches so far
    unrolled: frozenset[tuple[Any, Span]] = frozenset()  # the loops to write out, by source and place

    def expression(self, root: tree.Expression, scope: Scope) -> AnyValue:
        return evaluated(self, STEPS, root, scope)

    def invoke(
        self, function: AnyValue, args: list[Any], keywords: Mapping[str, Any], span: Span
    ) -> AnyValue:
        if isinstance(function, Closure):
            return self.call(function, args, keywords, span)
        target = function.call if isinstance(function, FunctionValue) else function
        if target not in MEASURES:
            for argument in (*args, *keywords.values()):
                self.aliases.read_all(argument, span)
        found = target(self, args, keywords, span)
        viewed = args[0] if args and target in VIEWS else None
        return shared(found, viewed if isinstance(viewed, Value) else None)

    # -- statements ----------------------------------------------------------------------------

    def block(self, statements: Sequence[tree.Statement], scope: Scope) -> Returned | None:
        """Run statements; None if the end is reached without a return."""
        within = self.within
        try:
            return self.statements(statements, scope)
        finally:
            self.within = within

    def statements(self, statements: Sequence[tree.Statement], scope: Scope) -> Returned | None:
        """Run statements; those of unrolled loops and of branches known at compile time are added to them."""
        rest = list(reversed(statements))
        while rest:
            statement = rest.pop()
            self.frame.scope = scope
            match statement:
                case tree.Return():
                    value = self.aliases.read_all(self.expression(statement.value, scope), statement.span)
                    return Returned(self.with_current_names(value))
                case tree.If() if (parts := with_one_append(self, statement, scope)) is not None:
                    rest += reversed(parts)
                case tree.If(test=condition, body=body, otherwise=otherwise):
                    test = self.condition(condition, scope)
                    if not isinstance(test, Value):
                        rest += reversed(body if test else otherwise)
                    elif returns((statement,)):
                        return self.returning(statement, test, rest[::-1], scope)
                    elif self.branch(statement, test, scope) is NEVER:
                        return NEVER
                case tree.Raise():
                    return self.raised(statement)
                case tree.For():
                    rest += reversed(self.loop(statement, scope))
                case tree.While():
                    rest += reversed(self.repeat(statement, scope))
                case Iteration(within=within, targets=targets, item=item):
                    self.within = within
                    if item is not None:
                        self.assign(targets[0], item(scope), scope)
                case _:
                    self.statement(statement, scope)
        return None

    def statement(self, statement: tree.Statement, scope: Scope) -> None:
        """Run one statement without nested blocks."""
        match statement:
            case tree.Assign():
                value = self.aliases.own(self.expression(statement.value, scope))
                for target in statement.targets:
                    self.assign(target, value, scope)
            case tree.Augmented(target=tree.Subscript(value=tree.Name() as place) as target) if (
                mask := self.mask_of(target, scope)
            ) is not None:
                left, right = (self.expression(e, scope) for e in (place, statement.value))
                operate = partial(self.augmented, statement, left)
                found = updated(self, left, mask, right, operate, statement.span)
                self.changed(place, as_updated(self, left, found, statement.span), scope)
            case tree.Augmented():
                left = self.expression(statement.target, scope)
                value = self.augmented(statement, left, self.expression(statement.value, scope))
                before = as_array(left)
                if isinstance(statement.target, tree.Name) and isinstance(before, Value) and before.rank:
                    value = as_updated(self, before, value, statement.span)
                    located(self, statement, value)
                    self.changed(statement.target, value, scope)
                else:
                    located(self, statement, value)
                    self.assign(statement.target, value, scope)
            case tree.Def():
                scope[statement.name] = defined(self, statement, scope)
            case tree.Bare(value=tree.Call() as call) if is_print(call, scope):
                self.print(call, scope)
            case tree.Bare() if (name := appended(statement)) is not None:
                append(self, statement, name, scope)
            case tree.Bare(value=tree.Call(function=tree.Name(id="require")) as call) if self.blame.elsewhere:
                require(self, call, scope)
            case tree.Bare():
                refuse_alone(self, statement)
            case _:
                unsupported(self, statement)

    def mask_of(self, target: tree.Subscript, scope: Scope) -> Value | None:
        """The mask that a subscript consists of."""
        places = run(self, indices(self, target), scope)
        return places[0] if len(places) == 1 and is_mask(places[0]) else None

    def augmented(self, statement: tree.Augmented, left: AnyValue, right: AnyValue) -> AnyValue:
        """The value of `left op= right`."""
        displays = False, is_display(statement.value, self.repeated)
        return operated(self, statement.op, left, right, statement.span, displays)

    def print(self, call: tree.Call, scope: Scope) -> None:
        """`print(...)` in the separate program for printing; in all others it does nothing."""
        self.prints = True
        if self.binders.observed:
            printed(self, [self.expression(argument, scope) for argument in call.arguments])

    # -- branches --------------------------------------------------------------------------------

    def condition(self, test: tree.Expression, scope: Scope) -> AnyValue:
        """The value of a condition: known at compile time, or a boolean scalar."""
        self.frame.scope = scope
        value = as_array(self.expression(test, scope))
        if not isinstance(value, Value):
            return bool(value)
        if value.rank:
            remedy = "use any(...) or all(...), or where(condition, a, b) for each element"
            self.fail(ShapeError, f"a condition must be a scalar, not {describe(value)}", test.span, remedy)
        return decided(Value((), cast(value.element, "bool")))

    def raised(self, statement: tree.Raise) -> Returned:
        """Refuse the call if this statement is reached: now, or if its conditions hold."""
        error = RAISED.get(statement.kind, Error)
        cause = f"{statement.kind}: {statement.message}" if statement.message else statement.kind
        remedy = "the program raises this: pass arguments that do not lead here"
        if not (self.binders.path or self.binders.around or self.binders.carrying):
            self.fail(error, cause, statement.span, remedy)
        self.binders.check(const(False, "bool"), (), cause, remedy, statement.span, error)
        return NEVER

    def branch(self, statement: tree.If, test: Value, scope: Scope) -> Returned | None:
        """An `if` without returns, whose condition selects the assigned values. NEVER if both branches
        raise."""
        then, otherwise, fork = dict(scope), dict(scope), self.aliases.fork()
        names = assigned((statement,))
        with self.binders.under(test.element):
            one = self.block(statement.body, then)
        fork.end(then, names)
        with self.binders.under(apply("logical_not", test.element)):
            other = self.block(statement.otherwise, otherwise)
        fork.end(otherwise, names)
        fork.join()
        if one is NEVER or other is NEVER:
            scope.update(otherwise if one is NEVER else then)
            return NEVER if one is other else None
        masks = isinstance(statement, Exit)
        self.merge(test, then, otherwise, scope, names, masks, statement.span)
        fork.keep_distinct(names, scope, then, otherwise)
        return None

    def merge(
        self, test: Value, then: Scope, otherwise: Scope, scope: Scope, names: Sequence[str], masks: bool,
        span: Span,
    ) -> None:  # fmt: skip
        """Set names to their values after either branch. With `masks`, an array is not selected if a branch
        only stores elements in it: the stores are made under the condition."""
        names = [n for n in names if n in then or n in otherwise]
        changed, stores = Changed(), dict[str, Value]()
        for name in names:
            if masks and (store := masked(test, then.get(name), otherwise.get(name), changed)) is not None:
                stores[name] = store
        for name in names:
            if name not in stores:
                one, other = (read_anew(branch.get(name), changed) for branch in (then, otherwise))
                scope[name] = self.chosen(test, name, one, other, span)
            else:
                bound = self.bind(name, stores[name], span)
                scope[name] = self.aliases.either(bound, then.get(name), otherwise.get(name))

    def chosen(self, test: Value, what: str, then: AnyValue, otherwise: AnyValue, span: Span) -> AnyValue:
        """The value of a name after a branch."""
        known = then is not None and otherwise is not None
        grown = any(isinstance(v, Listed) and v.grown for v in (then, otherwise))
        if known and grown and then is not otherwise:
            return self.chosen_list(test, what, then, otherwise, span)
        then, otherwise = as_array(then), as_array(otherwise)
        if then is otherwise or otherwise is UNSET:
            return then
        if then is UNSET:
            return otherwise
        if isinstance(then, tuple) and isinstance(otherwise, tuple) and len(then) == len(otherwise):
            pairs = zip(then, otherwise, strict=True)
            return tuple(self.chosen(test, what, a, b, span) for a, b in pairs)
        if all(isinstance(v, Value) or is_number(v) for v in (then, otherwise)):
            ranks = [v.rank if isinstance(v, Value) else 0 for v in (then, otherwise)]
            if ranks[0] != ranks[1] and what != RESULT:
                cause = f"{what} has rank {ranks[0]} in one branch and {ranks[1]} in the other"
                self.fail(ShapeError, cause, span, "use the same shape everywhere")
            found = self.bind(what, self.where(test, then, otherwise, span), span)
            return self.aliases.either(found, then, otherwise)
        if not known or any(isinstance(v, Foreign) for v in (then, otherwise)):
            return Foreign("assigned in only one branch", OTHER_BRANCH)
        return Foreign("a different kind of value in each branch", "use the same kind in both")

    def chosen_list(
        self, test: Value, what: str, then: AnyValue, otherwise: AnyValue, span: Span
    ) -> AnyValue:
        """A list after a branch that appends to it: both branches must append equally often."""
        if not all(isinstance(v, Listed) for v in (then, otherwise)) or len(then) != len(otherwise):
            cause, remedy = (
                f"the length of the list {what} depends on values",
                "append in both branches, 0.0 if there is no value",
            )
            self.fail(ShapeError, cause, span, remedy)
        pairs = zip(then, otherwise, strict=True)
        found = listed(self, [self.chosen(test, what, a, b, span) for a, b in pairs], span)
        found.grown = True
        owned: AnyValue = self.aliases.own(found)
        return owned

    def returning(
        self, statement: tree.If, test: Value, rest: Sequence[tree.Statement], scope: Scope
    ) -> Returned | None:
        """An `if` with a return inside: the following statements belong to both branches."""
        self.branches += 1
        if self.branches > MOST_BRANCHES:
            cause = f"more than {MOST_BRANCHES} branches with a return and code after them"
            self.fail(LimitError, cause, statement.span, "assign to a name, and return it at the end")
        fork = self.aliases.fork()
        with self.binders.under(test.element):
            then = self.block((*statement.body, *rest), dict(scope))
        fork.end({}, ())
        with self.binders.under(apply("logical_not", test.element)):
            otherwise = self.block((*statement.otherwise, *rest), dict(scope))
        fork.end({}, ())
        fork.join()
        if then is NEVER or otherwise is NEVER:
            return otherwise if then is NEVER else then
        if then is None or otherwise is None:
            remedy = "end each branch with a return"
            self.fail(ParseError, "a branch ends without a return", statement.span, remedy)
        return Returned(self.chosen(test, "the result", then.value, otherwise.value, statement.span))

    # -- loops -------------------------------------------------------------------------------------

    def loop(self, statement: tree.For, scope: Scope) -> list[tree.Statement]:
        """A program loop; over a tuple or few iterations it is unrolled into statements."""
        items = run(self, iterable(self, statement.iterable, scope), scope)
        if isinstance(items, tuple):
            number = len(items)
        elif is_few(items, MOST_UNROLLED) or (self.source, statement.span) in self.unrolled:
            number = int(items.length.value)
        else:
            try:
                return self.iterate(statement, items, scope)
            except CarriedError as changed:
                if is_few(items, MOST_UNROLLED_SHAPES):
                    raise UnrollError(self.source, statement.span, changed.error) from None
                raise changed.error from None
        mark_unset(statement, scope)
        live = is_live(statement, scope)
        if not (live or isinstance(items, tuple)):
            self.read_items(statement, items)
            items = tuple(self.aliases.rows([items.at(const(k, "i64")) for k in range(number)]))
        given = [
            partial(self.item, statement, None if live else items, const(k, "i64")) for k in range(number)
        ]
        (looped, until), span = without_leaves(statement), statement.span
        found, later = tuple[tree.Statement, ...](), tuple[tree.Statement, ...]()
        for k, item_of in reversed(list(enumerate(given))):
            within = (*self.within, Within("loop", self.source, self.blame.place(span), k))
            start = Iteration(span, (statement.target,), statement.iterable, within, item_of)
            found = (start, *looped.body, *(unless(until, found) if until else found))
            if until and k and not k % MOST_NESTED:
                found, later = (), (*unless(until, found), *later)
        return [*found, *later, Iteration(span, (), statement.iterable, self.within)]

    def item(
        self,
        loop: tree.For,
        items: Iterable | tuple[AnyValue, ...] | None,
        step: Element,
        scope: Scope,
    ) -> AnyValue:
        """The item of an iteration; without `items`, the iterable is evaluated again."""
        if items is None:
            items = run(self, iterable(self, loop.iterable, scope), scope)
        if isinstance(items, tuple):
            assert isinstance(step, Const)
            return literal(items[int(step.value)])
        self.read_items(loop, items)
        found = self.aliases.row(items.at(step))
        return literal(found) if isinstance(step, Const) else found

    def read_items(self, loop: tree.For, items: Iterable) -> None:
        """Read the arrays whose elements are the items."""
        for held in items.over:
            name = named(loop.iterable) or "the range or array of the loop"
            self.aliases.read_held(held, name, loop.iterable.span)

    def iterate(self, loop: tree.For, items: Iterable, scope: Scope) -> list[tree.Statement]:
        """A `for` loop with carried state; returns the statements after it if it may return."""
        statement, until = self.entering(loop, scope)
        breaks = until is not None
        lists = growing(self, statement, items, breaks, scope, lambda s: self.iterate(loop, items, s))
        item = partial(self.item, loop, None if is_live(loop, scope) else items)

        def iteration(step: Element, inner: Scope) -> None:
            self.binders.know(step, items.last, items.step)
            self.binders.inside(None, items.length)
            try:
                lists.enter(step, inner)
                self.assign(statement.target, item(step, inner), inner)
                self.block(statement.body, inner)
                lists.complete(step, inner)
            finally:
                self.binders.around.pop()

        def test(step: Element, inner: Scope) -> Value:
            going = apply("less", step, items.length)
            if items.guard is not None and not items.filtered:  # the first excluded iteration ends the loop
                going = apply("logical_and", going, items.guard(step))
            return Value((), going)

        guard = items.guard if items.filtered or not breaks else None
        few = is_few(items, MOST_UNROLLED_SHAPES)
        form = LoopForm(iteration, None if breaks else items.length, guard, test if breaks else None, few)
        self.carry(form, statement, until, scope)
        lists.leave(scope)
        return self.following(loop)

    def repeat(self, loop: tree.While, scope: Scope) -> list[tree.Statement]:
        """A `while` loop with carried state; returns the statements after it if it may return."""
        statement, until = self.entering(loop, scope)
        refuse_lists(self, statement, scope)

        def test(_: Element, inner: Scope) -> Value:
            value = self.condition(statement.test, inner)
            return value if isinstance(value, Value) else Value((), const(value, "bool"))

        def iteration(_: Element, inner: Scope) -> None:
            self.block(statement.body, inner)

        try:
            self.carry(LoopForm(iteration, test=test), statement, until, scope)
        except CarriedError as changed:
            raise changed.error from None
        return self.following(loop)

    def entering(self, loop: LoopT, scope: Scope) -> tuple[LoopT, str | None]:
        """A loop without exits inside. The value that it returns may widen to any type."""
        if returns(loop.body):
            scope |= {RETURNED: False, RESULT: nothing(next(returned(loop.body)))}
            self.returned = []
        return without_leaves(without_returns(loop))

    def following(self, loop: Loop) -> list[tree.Statement]:
        """The statements after a loop, which return if the loop did."""
        if not returns(loop.body):
            return []
        ranks, self.returned = self.returned, []
        if len({*ranks}) > 1:
            cause = "the values returned by a loop have different ranks"
            self.fail(ShapeError, cause, loop.span, "use the same shape everywhere")
        given = tree.Return(loop.span, tree.Name(loop.span, RESULT))
        if is_endless(loop):
            return [given]
        if not ranks:  # conditions known at compile time skip every return
            return []
        return [tree.If(loop.span, tree.Name(loop.span, RETURNED), (given,), ())]

    def carry(self, form: LoopForm, statement: Loop, until: str | None, scope: Scope) -> None:
        """Run a loop; names assigned only inside it have no value after it."""
        mark_unset(statement, scope)
        names, lists = assigned((statement,)), lists_of(self, statement, scope)
        known = [n for n in names if n in scope and n not in lists]
        carried = [
            n for n in known if not isinstance(scope[n], Closure | Foreign | FunctionValue | ModuleValue)
        ]
        carried += [scope[n].key for n in lists if isinstance(scope[n], AppendedList)]
        if until is not None:
            scope[until] = False
            carried = [n for n in carried if n != until] + [until]
            assert form.test is not None
            form = replace(form, test=partial(self.unbroken, until, form.test))
        run_loop(self, form, carried, scope, statement.span)
        scope.update((n, LOCAL) for n in names if n not in carried and n not in lists)

    def unbroken(
        self, until: str, test: Callable[[Element, Scope], Value], step: Element, scope: Scope
    ) -> Value:
        """Whether a loop continues: its flag is not set, and its own condition holds."""
        going = apply("logical_not", cast(scope[until].element, "bool"))
        with self.binders.under(going):
            value = test(step, scope)
        always = is_const(value.element, True)
        return Value((), going if always else apply("logical_and", going, value.element))

    def assign(self, target: tree.Expression, value: AnyValue, scope: Scope) -> None:
        """Bind a name, or each name of a tuple; `x[i] = v` binds x to the updated array."""
        match target:
            case tree.Name() if isinstance(value, AppendedList | AppendProbe):
                self.fail(
                    DtypeError, "a list that a loop appends to cannot get another name", target.span, READ
                )
            case tree.Name(id=name):
                scope[name] = self.aliases.own(self.bind(name, value, target.span))
                if name == RESULT:
                    self.returned.append(_ranks(as_array(value)))
            case tree.Sequence(items=items):
                parts = unpacked(self, value, len(items), target.span)
                for item, part in zip(items, parts, strict=True):
                    self.assign(item, part, scope)
            case tree.Subscript():
                self.store(target, value, scope)
            case _:
                unsupported(self, target)

    def store(self, target: tree.Subscript, value: AnyValue, scope: Scope) -> None:
        """`x[indices] = value`."""
        place = stored_name(self, target)
        array = as_array(self.expression(place, scope))
        places = run(self, indices(self, target), scope)
        self.changed(place, stored(self, array, places, value, target.span), scope)

    def changed(self, place: tree.Expression, value: AnyValue, scope: Scope) -> None:
        """Bind the name of an array to the array after a store."""
        assert isinstance(place, tree.Name)
        before = scope[place.id]
        before = scope.get(before.key) if isinstance(before, AppendedList) else as_array(before)
        held = before.held if isinstance(before, Value) else None
        bound = self.bind(place.id, value, place.span)
        scope[place.id] = self.aliases.stored(bound, held, place.id, place.span)

    # -- calls of defs -------------------------------------------------------------------------

    def call(self, closure: Closure, args: list[Any], keywords: Mapping[str, Any], span: Span) -> AnyValue:
        """The value of a definition's body on these arguments."""
        bound = arguments(self, closure, args, keywords, span)
        if closure.core is not None:
            return mapped(self, closure, bound, span)
        if closure.rule is not None:
            return ruled(self, closure, list(bound.values()), span)
        self.total += 1
        if self.total > MOST_CALLS:
            self.fail(
                LimitError, f"more than {MOST_CALLS} calls", span, "each call is inlined: use fewer calls"
            )
        if self.calls >= CALL_DEPTH:
            self.fail(
                LimitError, f"calls nest deeper than {CALL_DEPTH}", span, "recursion must end at compile time"
            )
        caller = self.source, self.body, self.within, self.frame, self.blame.source
        if self.calls:
            self.within = (*self.within, Within("call", self.source, self.blame.place(span)))
        self.source = closure.source
        self.blame.source = None if closure.source is self.own_source else closure.source
        self.body = (*closure.definition.parameters, *closure.definition.body)
        self.calls += 1
        try:
            sizes = annotate(self, closure, bound, self.sizes.named if self.calls == 1 else {})
            scope = {**seen(closure), **sizes, **{n: self.aliases.own(v) for n, v in bound.items()}}
            self.frame = Frame(scope)
            returned = self.block(closure.definition.body, scope)
        finally:
            self.calls -= 1
            self.source, self.body, self.within, self.frame, self.blame.source = caller
        if returned is NEVER:
            return nan
        if returned is not None:
            return returned.value
        never_returns(closure)

    def composed(
        self, definition: tree.Def, scope: Scope, span: Span, rule: tree.Def | None = None
    ) -> AnyValue:
        if rule is not None:
            assert self.source is not None
            args = [scope.pop(p.name) for p in definition.parameters]
            closure, pulled = (Closure(d, scope, self.source) for d in (definition, rule))
            with self.blame.on(definition.name, span):
                return ruled(self, replace(closure, rule=pulled), args, span)
        caller = self.body, self.frame, self.stores
        self.body = (*definition.parameters, *definition.body)
        self.stores = has_loops(definition)
        scope = {name: self.aliases.own(value) for name, value in scope.items()}
        self.frame = Frame(scope)
        try:
            with self.blame.on(definition.name, span):
                returned = self.block(definition.body, scope)
        finally:
            self.body, self.frame, self.stores = caller
        assert returned is not None, definition.name
        return returned.value

    def with_current_names(self, value: AnyValue) -> AnyValue:
        """The returned value; a definition made in this call captures its names as they are now."""
        if isinstance(value, tuple) and not isinstance(value, Listed):
            return tuple(map(self.with_current_names, value))
        if isinstance(value, Closure) and value.scope is self.frame:
            return replace(value, scope=Frame(dict(self.frame)))
        return value


def is_few(items: Iterable, most: int) -> bool:
    """Whether a loop has at most this many iterations, known at compile time."""
    return is_const(items.length) and items.length.value <= most and items.guard is None


def mark_unset(loop: Loop, scope: Scope) -> None:
    """Give the names that have a value only after the loop one that is not read."""
    scope |= {n: UNSET for n in loop.bound if isinstance(scope.get(n, LOCAL), Foreign)}


def is_print(call: tree.Call, scope: Scope) -> bool:
    """Whether a statement prints."""
    return isinstance(call.function, tree.Name) and call.function.id == "print" and "print" not in scope


def refuse_alone(context: Context, statement: tree.Bare) -> None:
    """Refuse an expression as a statement, unless it is a docstring."""
    if not isinstance(statement.value, tree.Text) and getattr(statement.value, "id", "") != "pass":
        remedy = alone(statement.value)
        context.fail(ParseError, "an expression on its own does nothing", statement.span, remedy)


def stored_name(context: Context, target: tree.Subscript) -> tree.Name:
    """The name of an array in which `x[indices] = value` stores."""
    if isinstance(target.value, tree.Name):
        return target.value
    context.fail(ParseError, "only elements of a name can be assigned", target.span, "name it first")


def defined(context: Context, statement: tree.Def, scope: Scope) -> AnyValue:
    """The function that a nested definition makes, after its decorators."""
    assert context.source is not None
    defaults = {p.name: default(context, p, scope) for p in statement.parameters if p.default}
    value: AnyValue = Closure(statement, context.frame, context.source, defaults=defaults)
    for decorator in reversed(statement.decorators):
        if not changes_nothing(decorator, scope):
            name = tree.Name(decorator.span, f"def {statement.name}")
            call = tree.Call(decorator.span, decorator, (name,), ())
            value = context.expression(call, {**scope, name.id: value})
    return value


def default(context: Context, parameter: tree.Parameter, scope: Scope) -> AnyValue:
    """The value of an omitted parameter, known at compile time."""
    assert parameter.default is not None
    value = context.expression(parameter.default, scope)
    if not (isinstance(value, Unknown) or _is_known(value)):
        remedy = "write a number, a string, or a tuple of these, and create arrays from it inside"
        cause = f"the default of {parameter.name!r} is {describe(value)}"
        context.fail(ParseError, cause, parameter.default.span, remedy)
    return value


def never_returns(closure: Closure) -> NoReturn:
    """Refuse a function that ends without a result."""
    raise ParseError(
        f"{closure.definition.name} ends without a return", remedy="return at least one value",
        source=closure.source, span=closure.definition.span,
    )  # fmt: skip


def arguments(
    context: Context, closure: Closure, args: list[Any], keywords: Mapping[str, Any], span: Span
) -> dict[str, Any]:
    """Arguments by parameter name."""
    definition, defaults = closure.definition, closure.defaults
    names = [p.name for p in definition.parameters]
    bound = dict(zip(names, args, strict=False))
    unknown = [k for k in keywords if k not in names or k in bound]
    missing = [n for n in names if n not in bound and n not in keywords and n not in defaults]
    if len(args) > len(names) or unknown or missing:
        context.fail(
            ParseError,
            f"{definition.name} takes ({', '.join(names)})",
            span,
            f"missing: {', '.join(missing)}" if missing else "remove the other arguments",
        )
    given = {**defaults, **bound, **keywords}
    return {name: given[name] for name in names}


def _ranks(value: AnyValue) -> Any:
    """The rank of what a loop returns; a number stands for it until its rank is known."""
    if isinstance(value, tuple):
        return tuple(map(_ranks, value))
    return value.rank if isinstance(value, Value) else 0


def _is_known(value: AnyValue) -> bool:
    """Whether a value consists of numbers and strings known at compile time."""
    if isinstance(value, Listed) and value.written:
        return all(map(_is_known, value.written))
    if isinstance(value, tuple):
        return all(map(_is_known, value))
    return value is None or isinstance(value, str) or is_number(value)
