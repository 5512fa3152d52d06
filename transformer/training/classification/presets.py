"""The plans behind the shipped sequence classifiers."""

from transformer.models.kmer import KmerConfig
from transformer.sequences.alphabet import DNA
from transformer.sequences.task import Landmark, SequenceTask
from transformer.training.classification.data import Substitution
from transformer.training.classification.plan import KMER, Aim, Distillation, Hyperparameters, Plan

SPLICE_JUNCTIONS = Plan(
    name="splice-junctions",
    title="Splice junctions of primates",
    task=SequenceTask(
        alphabet=DNA,
        classes=("EI", "IE", "N"),
        length=60,
        meanings={
            "EI": "donor: an exon ends and an intron begins in the middle",
            "IE": "acceptor: an intron ends and an exon begins in the middle",
            "N": "neither",
        },
        landmarks=(Landmark("EI", 30, "GT", "donor GT"), Landmark("IE", 28, "AG", "acceptor AG")),
        background="N",
        translations={
            "zh": {
                "donor: an exon ends and an intron begins in the middle": (
                    "供体位点：外显子在正中结束，内含子由此开始"  # noqa: RUF001
                ),
                "acceptor: an intron ends and an exon begins in the middle": (
                    "受体位点：内含子在正中结束，外显子由此开始"  # noqa: RUF001
                ),
                "neither": "两者都不是",
                "donor GT": "供体 GT",
                "acceptor AG": "受体 AG",
            }
        },
    ),
    config=KmerConfig(
        vocab=len(DNA),
        n_classes=3,
        d_model=48,
        n_heads=4,
        n_layers=2,
        d_ff=96,
        widths=(3, 11),
        dropout=0.2,
        norm_first=True,
        activation="relu",
        positions="sinusoidal",
        max_length=64,
        scale_embedding=False,
        pooling="attention",
    ),
    hyperparameters=Hyperparameters(epochs=30, batch=64, rate=2e-3, average=0.99, unknown=0.15, decay=0.05),
    provenance=(
        "UCI Machine Learning Repository, “Molecular Biology (Splice-junction Gene Sequences)” (Towell, Noordewier and "
        "Shavlik 1992; from GenBank 64.1), archive.ics.uci.edu, "
        "licence [CC BY 4.0](https://creativecommons.org/licenses/by/4.0/). 60 letters around the middle of each "
        "sequence; the junction lies between letters 30 and 31 (counted from 1). Sequences that share 24 letters in a "
        "row, on either strand, were kept on one side when the data were divided."
    ),
    limits=(
        "Only sequences of 60 letters with the candidate junction in the middle mean anything to it: other lengths "
        "run, but were never trained. Primate genes known by 1992; half of the rows are junctions, which is far more "
        "than in a genome. The other strand of a junction is no junction."
    ),
    may_pass_on=True,
    aim=Aim("accuracy", 0.96, "the best published in StatLog, on its own division of the data, is 0.959"),
    distillation=Distillation(epochs=30, crossed=0.5),
    tried=(
        "Everything is of the validation rows, which chose between what is told here; no others were looked at. The "
        "checkpoint that shipped before (the best of three seeds): accuracy 0.9542, loss 0.179 nats a row. The three "
        "seeds and six nets above, averaged: 0.9646 and 0.144. A student of these nine from fresh weights (30 epochs, "
        "peak rate 0.002, half of its rows joined from two; `--seeds 1 2 3 --baseline-seeds 1 2 3 4 5 6 --students 1 "
        "--out path/to/splice-junctions-first`): 0.9542 and 0.150. It is what the command above goes on from, and a "
        "tenth teacher: the shipped files, 0.9583 and 0.146. 480 rows tell accuracies apart by 0.009 at best, so the "
        "loss is the surer guide. Later, and without the validation rows: five-fold cross-validation of the 2,232 "
        "training rows (families together, 30 epochs, weights of the end; differences are paired, ± their standard "
        "error). From labels, windows of 3 and 11: accuracy 0.9624, loss 0.115. Windows of 11 alone: 0.9677 and "
        "0.105, so 0.0054 ± 0.0028 more; another seed: 0.9677 and 0.107, 0.0054 ± 0.0031 more. CNNs of four seeds: "
        "0.9637 and 0.111 on average, as one 0.9659 and 0.103. Logistic regression on k-mers: 0.9570 and 0.122. The "
        "four CNNs and both classifiers of windows of 11 as one: 0.9695 and 0.094; with that regression 0.9727 and "
        "0.089, so 0.0031 ± 0.0016 more. A student of these six with windows of 11 (half of its rows joined), on "
        "four of the folds: 0.9625 and 0.118, by 0.0022 ± 0.0026 less than the like of it from labels; going on "
        "from such a one instead, on one fold: no better than it was. Trained on all rows, windows of 11 reached "
        "0.9458 and 0.172 on the validation rows, so nothing is better by more than chance in both, and the shipped "
        "weights stayed. What was not tried: a student of teachers among which that regression is, on every fold; "
        "other sizes and longer schedules."
    ),
)

CORE_PROMOTERS = Plan(
    name="core-promoters",
    title="Core promoters of human genes without a TATA box",
    task=SequenceTask(
        alphabet=DNA,
        classes=("non", "promoter"),
        length=70,
        meanings={
            "non": "background: a promoter with parts replaced by random letters",
            "promoter": "34 letters before a start of transcription to 35 after it",
        },
        background="non",
        translations={
            "zh": {
                "background: a promoter with parts replaced by random letters": (
                    "背景：部分片段被随机字母替换的启动子"  # noqa: RUF001
                ),
                "34 letters before a start of transcription to 35 after it": "从转录起始前 34 个字母到其后 35 个字母",
            }
        },
    ),
    config=KmerConfig(
        vocab=len(DNA),
        n_classes=2,
        d_model=64,
        n_heads=8,
        n_layers=1,
        d_ff=128,
        widths=(11,),
        dropout=0.1,
        norm_first=True,
        activation="relu",
        positions="sinusoidal",
        max_length=72,
        scale_embedding=False,
        pooling="attention",
        n_questions=8,
    ),
    hyperparameters=Hyperparameters(
        epochs=8,
        batch=64,
        rate=2e-3,
        warmup=200,
        fresh=1.0,
        substitution=Substitution(block=15, start=216, total=19, replaced=12),
        positive=1,
    ),
    provenance=(
        "Task `prom_core_notata` of the GUE benchmark (Zhou et al. 2024, “DNABERT-2”), its official training and "
        "validation parts: 70 letters around the starts of transcription of human genes without a TATA box. No "
        "licence is stated for the data; only these weights are shipped."
    ),
    limits=(
        "The background of this benchmark is no genomic sequence: it shows itself to be promoters of which random "
        "letters replace some blocks of 15. (In the training part, 29 to 30 % of the background rows share the 15 "
        "letters from letter 10, 25, 40 or 55 on with a promoter at the same place, 10 % those that lie between these "
        "blocks; of promoters, under 2 % share either with another one.) So the score says how well natural letters "
        "are told from random ones, block by block, and not how well promoters are found in a genome. Background rows "
        "of training are made anew, in that way, each time they are met, from promoters of the training part, so that "
        "letters known by heart stand in both classes. The task depends on the strand, so the other strand was not "
        "used in training."
    ),
    may_pass_on=False,
    aim=Aim("mcc", 0.716, "the best published, by a model of 2.5 billion parameters on the test part, is 0.7158"),
    distillation=Distillation(epochs=8, crossed=0.25, teachers=(KMER,)),
    tried=(
        "Everything is of the validation rows, which chose between what is told here; no others were looked at. The "
        "checkpoint that shipped before, `core-promoters-first`, is what the command above without `--start` and "
        "`--start-rate` makes with seeds 1 2 3 (the best of them is the third; the three: Matthews correlation 0.7355 "
        "± 0.0073, 0.7433 for that one, loss 0.303 nats a row). The shipped files go on from it for 8 epochs more: "
        "0.7445 and 0.297. Another seed from fresh weights, with other rows held out: 0.7267 and 0.317; averaged with "
        "the former one: 0.7433 and 0.302, so nothing was distilled. Going on once more from the shipped files, at "
        "half the rate: 0.7429 and 0.297. What was not tried: other widths and sizes, and a longer schedule from fresh "
        "weights."
    ),
)

PRESETS = {plan.name: plan for plan in (SPLICE_JUNCTIONS, CORE_PROMOTERS)}
"""Every plan by name."""
