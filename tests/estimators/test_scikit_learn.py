"""Estimators, tasks, solvers and features as scikit-learn uses them, though none inherits from its classes."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone, is_classifier, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.feature_selection import RFE
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_html_repr, get_tags
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import latentstruct
from error_fields import raises
from latentstruct import (
    CCCP,
    CRF,
    LBFGS,
    BlockAscent,
    BoxFeatures,
    Chain,
    GroupNorm,
    HiddenCRF,
    KernelStructuralSVM,
    LatentMulticlass,
    LatentSSVM,
    Measure,
    ModLat,
    Multiclass,
    RotatedViews,
    StructuralSVM,
    StructuredEstimator,
    StructuredPerceptron,
    WindowFeatures,
)
from latentstruct.core import parameters
from latentstruct.core.parameters import Parametrized

rng = np.random.default_rng(0)
y = np.arange(60) % 3
X = rng.normal(size=(60, 4))
X[np.arange(60), y] += 2.0
WEIGHTS = np.where(y == 0, 5.0, 1.0)
NAMED = np.array(["no", "yes"])[(y == 0).astype(int)]
STATES = LatentMulticlass(n_states=2, weights="state", bias=1.0)
BINARY = [
    StructuralSVM(Multiclass(bias=1.0)),
    CRF(Multiclass(bias=1.0)),
    StructuredPerceptron(Multiclass(bias=1.0)),
    KernelStructuralSVM(Multiclass(bias=1.0)),
    StructuralSVM(Measure("rocarea"), C=100.0),
    LatentSSVM(STATES, init="random"),
    HiddenCRF(STATES, init="random"),
]


def public_classes():
    found = [getattr(latentstruct, name) for name in latentstruct.__all__]
    return [one for one in found if inspect.isclass(one) and issubclass(one, Parametrized)]


@pytest.mark.parametrize("kind", public_classes())
def test_every_class_with_parameters_can_be_cloned(kind):
    values = {
        "task": Multiclass(),
        "width": 5,
        "ratio": 0.2,
        "features": latentstruct.WindowFeatures(),
        "model": CRF(latentstruct.Chain()),
    }
    needed = {
        name: values[name] for name, one in inspect.signature(kind).parameters.items() if one.default is one.empty
    }
    original = kind(**needed)
    for copied in (clone(original), parameters.clone(original), pickle.loads(pickle.dumps(original))):
        assert type(copied) is kind
        assert copied.get_params(deep=False).keys() == original.get_params(deep=False).keys()
        assert repr(copied) == repr(original)


def test_nested_parameters_are_set_and_shown():
    model = StructuralSVM(LatentMulticlass(n_states=2), solver=CCCP(BlockAscent(max_iter=5)))
    assert model.get_params()["solver__inner__max_iter"] == 5
    assert model.set_params(C=2.0, solver__inner__max_iter=7, task__n_states=3) is model
    assert (model.C, model.solver.inner.max_iter, model.task.n_states) == (2.0, 7, 3)
    model.set_params(solver=CCCP(LBFGS()), solver__inner__tol=0.5)
    assert repr(model) == "StructuralSVM(task=LatentMulticlass(n_states=3), C=2.0, solver=CCCP(inner=LBFGS(tol=0.5)))"
    for wrong in ("D", "task__D", "D__C"):
        with raises("params", got="'D'", expected="parameters of"):
            model.set_params(**{wrong: 1})
    assert repr(GroupNorm(np.arange(50))) == "GroupNorm(groups=<ndarray of int64, shape (50,)>)"


def test_clones_share_nothing_and_know_nothing_that_was_learned():
    costs = np.ones((3, 3)) - np.eye(3)
    model = StructuralSVM(Multiclass(costs=costs), solver=BlockAscent()).fit(X, y)
    for copied in (clone(model), parameters.clone(model)):
        assert not hasattr(copied, "coef_")
        assert not hasattr(copied.task, "n_features")
        assert copied.solver is not model.solver
        assert copied.task.costs is not costs
        assert np.array_equal(copied.task.costs, costs)


def test_parameters_of_other_libraries_are_cloned_too():
    class Holder(Parametrized):
        def __init__(self, parts):
            self.parts = parts

    parts = {"ours": [Multiclass(bias=1.0)], "theirs": (LinearSVC(C=3.0).fit(X, y), Multiclass), "plain": {1, 2}}
    found = clone(Holder(parts)).parts
    assert repr(found["ours"]) == repr(parts["ours"])
    assert found["ours"][0] is not parts["ours"][0]
    assert found["theirs"][0].C == 3.0
    assert not hasattr(found["theirs"][0], "coef_")
    assert found["theirs"][1] is Multiclass
    assert found["plain"] == {1, 2}


def test_what_cannot_be_cloned_is_refused():
    class Changing(Parametrized):
        def __init__(self, values=()):
            self.values = list(values)

    with pytest.raises(RuntimeError, match="Changing does not keep values unchanged"):
        clone(Changing((1, 2)))
    for wrong in (3, Multiclass):
        with pytest.raises(TypeError, match="has no parameters"):
            parameters.clone(wrong)


def test_searches_and_pipelines_take_estimators():
    pipeline = make_pipeline(StandardScaler(), StructuralSVM(Multiclass(), tol=0.1))
    grid = {"structuralsvm__C": [1e-6, 1.0], "structuralsvm__task__bias": [0.0, 1.0]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.score(X, y) > 0.8
    assert (cross_val_score(CRF(Multiclass(), tol=0.1), X, y, cv=3) > 0.6).all()
    assert "CRF(task=Multiclass(), C=7.0)" in repr(make_pipeline(StandardScaler(), CRF(Multiclass(), C=7.0)))


def test_window_features_are_a_step_of_a_pipeline():
    sentences = [[("the",), ("cat",)], [("a",), ("dog",), ("barks",)]] * 3
    labels = [["D", "N"], ["D", "N", "V"]] * 3
    model = Pipeline([("features", WindowFeatures(window=1)), ("crf", CRF(Chain(), tol=0.01))]).fit(sentences, labels)
    assert [found.tolist() for found in model.predict(sentences)] == labels
    assert model.set_params(features__window=2).named_steps["features"].window == 2


def test_tags_say_what_estimators_are():
    assert is_classifier(StructuralSVM(Multiclass()))
    assert is_classifier(make_pipeline(StandardScaler(), CRF(Multiclass())))
    assert not is_classifier(CRF(Chain()))
    assert not is_regressor(CRF(Chain()))
    assert get_tags(StructuralSVM(Multiclass())).classifier_tags.multi_class
    assert not get_tags(StructuralSVM(Measure())).classifier_tags.multi_class
    for features in (WindowFeatures(), RotatedViews()):
        assert get_tags(features).transformer_tags is not None
    for other in (Multiclass(), BlockAscent(), GroupNorm(), BoxFeatures()):
        assert get_tags(other).estimator_type is None


def test_scikit_learn_knows_what_is_fitted():
    model = StructuralSVM(Multiclass(), tol=0.1)
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError, match="this StructuralSVM is not fitted yet: call fit"):
        model.predict(X)
    check_is_fitted(model.fit(X, y))
    check_is_fitted(BoxFeatures())
    for features in (WindowFeatures(), RotatedViews()):
        with pytest.raises(NotFittedError):
            features.transform(np.zeros((1, 4, 4)))
    assert has_fit_parameter(model, "sample_weight")


def test_methods_are_there_if_the_task_has_them():
    chain, classes = CRF(Chain()), CRF(Multiclass())
    assert hasattr(classes, "decision_function")
    assert hasattr(chain, "pair_marginals")
    assert not hasattr(classes, "pair_marginals")
    assert inspect.isfunction(CRF.decision_function)
    assert "Return the scores" in CRF.decision_function.__doc__
    with pytest.raises(AttributeError, match="this CRF has no method pair_marginals"):
        _ = classes.pair_marginals


def test_diagrams_show_parameters():
    class Theirs(BaseEstimator):
        def fit(self):
            """Do nothing."""

    shown = StructuralSVM(Multiclass(bias=2.0), tol=0.25)._repr_html_()
    assert "sk-estimator" in shown
    assert "0.25" in shown
    if hasattr(BaseEstimator, "_get_params_html"):
        assert ("parameters" in estimator_html_repr(Theirs()).lower()) == ("parameters" in shown.lower())
        assert "max_iter" in shown
    step = estimator_html_repr(make_pipeline(StandardScaler(), CRF(Multiclass(), C=7.0)))
    assert "CRF" in step
    assert "Multiclass" in Multiclass()._repr_mimebundle_()["text/html"]
    with config_context(display="text"):
        assert not hasattr(Multiclass(), "_repr_html_")
        assert Multiclass()._repr_mimebundle_() == {"text/plain": "Multiclass()"}


def test_sample_weights_are_routed_where_they_are_requested():
    with config_context(enable_metadata_routing=True):
        plain = StructuralSVM(Multiclass(), tol=1e-4)
        model = clone(plain).set_fit_request(sample_weight=True).set_score_request(sample_weight="test_weight")
        routing = get_routing_for_object(model)
        assert routing.fit.requests["sample_weight"] is True
        assert routing.score.requests["sample_weight"] == "test_weight"
        assert routing.fit.requests["callback"] is None
        assert get_routing_for_object(clone(model)).fit.requests == routing.fit.requests
        assert get_routing_for_object(pickle.loads(pickle.dumps(model))).fit.requests == routing.fit.requests
        search = GridSearchCV(model, {"C": [0.01]}, cv=3).fit(X, y, sample_weight=WEIGHTS, test_weight=WEIGHTS)
        expected = clone(plain).set_params(C=0.01).fit(X, y, sample_weight=WEIGHTS)
        assert np.array_equal(search.best_estimator_.coef_, expected.coef_)
        scores = cross_validate(model, X, y, cv=3, params={"sample_weight": WEIGHTS, "test_weight": WEIGHTS})
        assert (scores["test_score"] > 0.5).all()
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), clone(model).set_params(C=0.01))
        weighted = pipeline.fit(X, y, sample_weight=WEIGHTS)[-1]
        scaled = StandardScaler().fit_transform(X)
        assert np.array_equal(weighted.coef_, clone(expected).fit(scaled, y, sample_weight=WEIGHTS).coef_)
        with pytest.raises(ValueError, match="sample_weight"):
            cross_validate(plain, X, y, cv=3, params={"sample_weight": WEIGHTS})
        with pytest.raises(TypeError, match=r"score\(\) has no argument H: it has sample_weight"):
            plain.set_score_request(H=True)
        assert "latent_features" in get_routing_for_object(ModLat(LatentMulticlass())).fit.requests
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        plain.set_fit_request(sample_weight=True)


def test_sample_weights_need_no_routing_in_pipelines():
    pipeline = make_pipeline(StandardScaler(), LatentSSVM(Multiclass(), tol=0.1))
    pipeline.fit(X, y, latentssvm__sample_weight=WEIGHTS)
    assert pipeline.score(X, y, sample_weight=WEIGHTS) > 0.7


@pytest.mark.parametrize("model", BINARY, ids=repr)
def test_two_classes_have_one_score(model):
    fitted = clone(model).fit(X, y=NAMED)
    scores = fitted.decision_function(X)
    assert scores.shape == (60,)
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.predict(X).tolist() == fitted.classes_[(scores > 0).astype(int)].tolist()
    assert roc_auc_score(NAMED, scores) > 0.8
    assert (cross_val_score(model, X, NAMED, scoring="roc_auc", cv=3, error_score="raise") > 0.6).all()
    if hasattr(fitted, "class_scores"):
        assert fitted.class_scores(X).shape == (60, 2)


def test_classifiers_serve_in_meta_estimators():
    svm = StructuralSVM(Multiclass(bias=1.0), C=1.0)
    calibrated = CalibratedClassifierCV(svm, cv=3, ensemble=False).fit(X, NAMED)
    assert calibrated.predict_proba(X).shape == (60, 2)
    assert calibrated.score(X, NAMED) > 0.75
    assert OneVsRestClassifier(svm).fit(X, y).score(X, y) > 0.7
    search = GridSearchCV(make_pipeline(StandardScaler(), CRF(Multiclass())), {"crf__C": [0.1, 1.0]}, cv=3)
    assert search.set_params(scoring="roc_auc_ovr").fit(X, y).best_score_ > 0.8


def test_features_are_eliminated_by_their_weights():
    # The first three of four features depend on the classes.
    for model in (StructuralSVM(Multiclass(bias=1.0)), LatentSSVM(STATES, init="random", restarts=3)):
        chosen = RFE(model, n_features_to_select=3, importance_getter="feature_weights_").fit(X, y)
        assert chosen.support_.tolist() == [True, True, True, False]
    fitted = StructuralSVM(Multiclass(bias=2.0)).fit(X, y)
    biases = 2.0 * fitted.coef_[-3:]
    np.testing.assert_allclose(X @ fitted.feature_weights_.T + biases, fitted.decision_function(X))
    assert StructuralSVM(Measure("f1"), C=100.0).fit(X, NAMED).feature_weights_.shape == (1, 4)
    for other in (KernelStructuralSVM(Multiclass()).fit(X, y), CRF(Multiclass()), CRF(Chain())):
        assert not hasattr(other, "feature_weights_")


def test_probabilities_are_those_of_the_scores():
    soft = [
        CRF(Multiclass(bias=1.0)),
        HiddenCRF(STATES, init="random"),
        StructuredEstimator(Multiclass(), temperature=(0.5, 0.0)),
    ]
    for model in soft:
        probabilities = model.fit(X, y).predict_proba(X)
        assert probabilities.shape == (60, 3)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        assert model.classes_[probabilities.argmax(axis=1)].tolist() == model.predict(X).tolist()
    np.testing.assert_allclose(soft[0].predict_proba(X), soft[0].marginals(X))
    two = soft[0].fit(X, NAMED)
    odds = two.predict_proba(X)
    np.testing.assert_allclose(np.log(odds[:, 1] / odds[:, 0]), two.decision_function(X), atol=1e-9)
    for hard in (StructuralSVM(Multiclass()), StructuralSVM(Measure()), CRF(Chain())):
        assert not hasattr(hard, "predict_proba")


def test_classes_that_training_folds_lack_are_errors():
    order = np.argsort(y, kind="stable")
    for model in (StructuralSVM(Multiclass()), LatentSSVM(STATES, init="random")):
        scores = cross_val_score(model, X[order], y[order], cv=KFold(3), error_score="raise")
        assert scores.tolist() == [0.0, 0.0, 0.0]


def test_no_features_and_continuous_targets_are_refused():
    for model in BINARY:
        with raises("X", expected="at least one feature"):
            clone(model).fit(X[:, :0], NAMED)
        with raises("y", got="continuous"):
            clone(model).fit(X, X[:, 0])
    with pytest.warns(DataConversionWarning, match="column-vector"):
        column = StructuralSVM(Multiclass()).fit(X, y[:, None])
    assert column.predict(X).shape == (60,)


def test_feature_names_are_checked(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    for model in BINARY:
        fitted = clone(model).fit(frame, pandas.Series(NAMED))
        assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "d"]
        assert fitted.n_features_in_ == 4
        fitted.save(tmp_path / "model")
        for one in (fitted, pickle.loads(pickle.dumps(fitted)), latentstruct.load(tmp_path / "model")):
            assert one.score(frame, pandas.Series(NAMED)) > 0.6
            for wrong in (frame[list("bacd")], frame.rename(columns={"a": "z"})):
                with pytest.raises(ValueError, match="feature names should match"):
                    one.predict(wrong)
            with pytest.warns(UserWarning, match="does not have valid feature names"):
                one.predict(X)
        assert not hasattr(fitted.fit(X, NAMED), "feature_names_in_")
        with pytest.warns(UserWarning, match="was fitted without feature names"):
            fitted.predict(frame)


def test_tags_describe_inputs():
    for model, rows in ((StructuralSVM(Multiclass()), True), (CRF(Chain()), False)):
        tags = get_tags(model)
        assert tags.input_tags.sparse == tags.input_tags.two_d_array == rows
        assert tags.target_tags.required
    assert not hasattr(StructuralSVM(Multiclass()), "set_output")
