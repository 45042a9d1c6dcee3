from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.named_classes import check_rules


def test_errors_of_the_python_api_name_no_flags():
    for seen in (["spam"], ["Spam", "spam"], ["ham"]):
        *_, check = check_rules(LabelRules(), "Spam", seen)
        assert check.problem is not None
        assert check.problem.startswith("label Spam: ")
        assert "--" not in check.problem
