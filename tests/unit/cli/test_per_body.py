"""Methods with one policy per body are scored on the bodies they were trained on."""

import json

RUN = (
    "run", "--method", "mlp", "--suite", "unimal", "--task", "ft", "--protocol", "smoke",
    "--seed", "1",
)  # fmt: skip
SMALL = ("--env-steps", "1024", "--model.hidden", "8", "--threads", "1", "--out", "run")


def test_the_test_split_is_left_out_and_refused(gmc, tmp_path):
    code, _, err = gmc(*RUN, *SMALL, "--morphologies", "tiny")
    assert code == 0, err
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    assert {item["split"] for item in record["returns"]} == {"train"}
    assert record["status"] == "complete"
    # 624 -> 8 -> 24 and 624 -> 8 -> 12, for each of two bodies
    assert record["parameters"] == 2 * (2 * (624 * 8 + 8) + 9 * 24 + 9 * 12)
    code, _, err = gmc("evaluate", "run", "--split", "test")
    assert code == 2
    assert "'mlp' has one policy for each training body and cannot be scored on the split" in err
    code, _, err = gmc("evaluate", "run", "--split", "train", "--episodes", "1")
    assert code == 0, err


def test_several_token_orders_per_body_are_refused(gmc, tmp_path):
    code, _, err = gmc(*RUN, *SMALL, "--morphologies", "tiny", "--tokens.order", "siblings")
    assert code == 2
    assert "cannot be trained on several token orders of each" in err.splitlines()[-1]
    assert not (tmp_path / "run").exists()
