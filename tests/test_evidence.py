"""Evidence: which sentences speak to a question, and when an index holds nothing on it. All on a small own corpus."""

import numpy as np
import pytest
from langchain_core.documents import Document

from rag_transformers.embeddings import default_embeddings
from rag_transformers.errors import UsageError
from rag_transformers.retrieval.evidence import Evidence, best_findings, find_evidence, holds, term_shares
from rag_transformers.retrieval.ranking import Lexical, lexical_text, rank, sentence_texts

TEXTS = {
    "oswin": "Oswin\nOswin is a town on the river Tarn. It had 4,100 inhabitants in 1950. Its weir was built by monks.",
    "marrow": "Elias Marrow\nElias Marrow was an engineer from Oswin. In 1902 he drew the plans of the Tarn bridge. "
    "He died of a fever two years after it was opened.",
    "bridge": "Tarn bridge\nThe Tarn bridge has five arches of granite. Why was it so dear? The stone came by sea. "
    "It replaced a ferry that a horse had pulled.",
    "ferry": "The ferry\nThe ferry crossed the river where the bridge now stands. Fares were a penny. "
    "Its last captain was Hanna Quist.",
    "青石镇": "青石镇\n青石镇位于白水河畔，以石雕闻名。镇上的石匠世家姓陆。1890年，陆远山修建了青石塔。",
    "青石塔": "青石塔\n青石塔高三十二米，共七层。塔顶原有一口铜钟。铜钟于1943年被熔毁。",
}


def chunk(name: str) -> Document:
    text = TEXTS[name]
    return Document(text, id=name, metadata={"source": name, "chunk": 0, "start": 0, "end": len(text)})


class Corpus:
    """A small index: everything that the functions want, from the real embeddings."""

    def __init__(self, names: list[str]) -> None:
        self.chunks = {name: chunk(name) for name in names}
        self.lexical = Lexical((name, lexical_text(each)) for name, each in self.chunks.items())
        sentences = {name: [each.text for each in sentence_texts(chunk)] for name, chunk in self.chunks.items()}
        self.vectors = {name: default_embeddings().embed_array(texts) for name, texts in sentences.items()}

    def evidence(self, question: str, k: int = 10) -> Evidence:
        vector = default_embeddings().embed_query(question)
        nearest = [
            (name, float(cosine))
            for name, vectors in self.vectors.items()
            for cosine in vectors @ np.asarray(vector, np.float32)
        ]
        found = rank(question, self.lexical, nearest, k)
        return find_evidence(
            question,
            vector,
            [self.chunks[each.id] for each in found],
            [self.vectors[each.id] for each in found],
            self.lexical,
            [each.score for each in found],
        )


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return Corpus(list(TEXTS))


class TestHolds:
    @pytest.mark.parametrize(
        "question",
        [
            "Who drew the plans of the Tarn bridge?",
            "How many people lived in Oswin?",
            "What was the ferry pulled by?",
            "Who was the captain of the ferry?",
            "Where was Elias Marrow from, and what did he die of?",
            "Hanna Quist",
            "青石塔有多高？",
            "谁修建了青石塔？",
            "青石塔的铜钟后来怎么样了？",
            "青石镇以什么闻名？",
        ],
    )
    def test_a_question_on_the_corpus_is_held(self, corpus: Corpus, question: str) -> None:
        assert holds(corpus.evidence(question))

    @pytest.mark.parametrize(
        "question",
        [
            "Which company makes the Falcon 900 jet?",
            "Who won the women's tennis final at Wimbledon in 2015?",
            "What is the boiling point of ethanol?",
            "How do I reset my password?",
            "Who directed the film Harbour Lights?",
            "谁是北京大学的校长？",
            "光合作用在哪里进行？",
            "这款手机的电池容量是多少？",
            "世界杯决赛哪支球队获胜？",
        ],
    )
    def test_a_question_on_something_else_is_not(self, corpus: Corpus, question: str) -> None:
        assert not holds(corpus.evidence(question))

    def test_one_chunk_is_enough_of_an_index(self) -> None:
        small = Corpus(["bridge"])
        assert holds(small.evidence("How many arches has the Tarn bridge?"))
        assert not holds(small.evidence("Which vaccine was approved in 1955?"))

    def test_a_question_may_be_in_another_language_than_the_answer(self) -> None:
        english = Corpus(["bridge", "ferry"])
        assert holds(english.evidence("这座花岗岩桥有几个拱？"))
        assert not holds(english.evidence("糖尿病有什么症状？"))

    def test_an_empty_index_holds_nothing(self) -> None:
        assert not holds(find_evidence("Who?", [1.0], [], [], Lexical()))

    def test_a_higher_cosine_of_unrelated_sentences_asks_for_nearer_ones(self, corpus: Corpus) -> None:
        evidence = corpus.evidence("What was the ferry pulled by?")
        assert holds(evidence, unrelated=0.07)
        assert not holds(evidence, unrelated=0.77)


class TestBestFindings:
    def test_the_sentence_with_the_answer_comes_first(self, corpus: Corpus) -> None:
        for question, answer in [
            ("Who drew the plans of the Tarn bridge?", "1902"),
            ("Who was the last captain of the ferry?", "Hanna Quist"),
            ("谁修建了青石塔？", "陆远山"),
            ("青石塔的铜钟是哪一年被熔毁的？", "1943"),
        ]:
            assert answer in best_findings(corpus.evidence(question))[0].text

    def test_there_are_at_most_as_many_as_asked_for(self, corpus: Corpus) -> None:
        evidence = corpus.evidence("What is known of the bridge, the ferry and the weir on the river?")
        assert [len(best_findings(evidence, limit)) for limit in (1, 2, 3)] == [1, 2, 3]

    def test_a_question_for_a_number_prefers_a_sentence_with_one(self, corpus: Corpus) -> None:
        assert "4,100" in best_findings(corpus.evidence("How many inhabitants did Oswin have?"))[0].text

    def test_what_follows_a_question_in_the_text_answers_it(self, corpus: Corpus) -> None:
        best = best_findings(corpus.evidence("Why was the Tarn bridge so dear?"))
        assert best[0].text == "The stone came by sea."

    def test_nothing_is_said_twice(self) -> None:
        text = "The lock has two gates. Boats wait below it."
        chunks = [Document(text, id="a"), Document("The lock has two gates.", id="b")]
        vectors = [default_embeddings().embed_array([each.text for each in sentence_texts(chunk)]) for chunk in chunks]
        question = "How many gates has the lock?"
        lexical = Lexical((str(chunk.id), chunk.page_content) for chunk in chunks)
        evidence = find_evidence(question, default_embeddings().embed_query(question), chunks, vectors, lexical)
        assert [finding.text for finding in best_findings(evidence)].count("The lock has two gates.") == 1

    def test_the_question_s_language_is_preferred_where_both_answer(self) -> None:
        chunks = [
            Document("The lighthouse of Brea is 40 metres high.", id="en"),
            Document("布雷亚灯塔（Brea）高40米。", id="zh"),
        ]
        lexical = Lexical((str(chunk.id), chunk.page_content) for chunk in chunks)
        vectors = [default_embeddings().embed_array([chunk.page_content]) for chunk in chunks]
        for question, expected in [("How high is the lighthouse of Brea?", "en"), ("布雷亚灯塔有多高？", "zh")]:
            vector = default_embeddings().embed_query(question)
            evidence = find_evidence(question, vector, chunks, vectors, lexical)
            assert best_findings(evidence, 1)[0].chunk.id == expected

    def test_spans_are_exact(self, corpus: Corpus) -> None:
        for finding in corpus.evidence("What of the ferry and the bridge?").findings:
            assert finding.chunk.page_content[finding.start : finding.end] == finding.text
            assert finding.text == finding.text.strip() != ""


class TestTermShares:
    LEXICAL = Lexical([("a", "The mill on the Tarn burned."), ("b", "The mill was built again.")])

    def test_together_are_one(self) -> None:
        assert sum(term_shares("Who built the mill on the Tarn?", self.LEXICAL).values()) == pytest.approx(1)

    def test_names_and_rare_terms_tell_more(self) -> None:
        shares = term_shares("Was the mill on the Tarn burned?", self.LEXICAL)
        assert shares["tarn"] > shares["burn"] > shares["mill"]

    def test_a_question_of_stop_words_has_none(self) -> None:
        assert term_shares("What is it?", self.LEXICAL) == {}


def test_arguments_that_do_not_fit_are_refused() -> None:
    one = chunk("ferry")
    with pytest.raises(UsageError, match="1 chunks, 0 sets of vectors"):
        find_evidence("Who?", [1.0], [one], [], Lexical())
    with pytest.raises(UsageError, match="2 rows for the 3 sentences"):
        find_evidence("Who?", [1.0], [one], [np.zeros((2, 1), np.float32)], Lexical())


def of_texts(*texts: str) -> Corpus:
    """A small index of other texts."""
    made = Corpus([])
    made.chunks = {
        str(number): Document(text, id=str(number), metadata={"source": str(number), "start": 0})
        for number, text in enumerate(texts)
    }
    made.lexical = Lexical((name, lexical_text(each)) for name, each in made.chunks.items())
    made.vectors = {
        name: default_embeddings().embed_array([sentence.text for sentence in sentence_texts(each)])
        for name, each in made.chunks.items()
    }
    return made


PARKING = "Visitors park behind the museum. A ticket is bought at the gate. Guides lead a tour at noon."


class TestASmallIndex:
    @pytest.mark.parametrize("question", ["How do I get a ticket?", "Where should visitors leave their car?"])
    def test_light_words_that_it_does_not_know_are_no_reason_to_say_no_data(self, question: str) -> None:
        assert holds(of_texts(PARKING).evidence(question))

    @pytest.mark.parametrize(
        "question", ["How do vaccines work?", "How long do eggs boil?", "Who led Napoleon's army at noon?"]
    )
    def test_it_holds_nothing_on_other_things(self, question: str) -> None:
        assert not holds(of_texts(PARKING).evidence(question))

    def test_an_unknown_name_is_doubted_as_in_any_index(self) -> None:
        evidence = of_texts(PARKING).evidence("Does Hanna Quist sell a ticket?")
        assert not evidence.lenient

    def test_a_larger_index_is_not_lenient(self) -> None:
        many = of_texts(PARKING, *(f"Shelf {number} holds jars." for number in range(40)))
        assert not many.evidence("How do I get a ticket?").lenient


class TestNames:
    TEXTS = (
        "The pier was built for 2.4 million francs. It was opened in May.",
        "The president of the rowing club gave a speech.",
        "Bread is sold on the quay.",
    )

    def test_a_name_is_not_met_by_the_stem_of_a_common_word(self) -> None:
        evidence = of_texts(*self.TEXTS).evidence("Who is the president of France?")
        assert not holds(evidence)
        assert not any("franc" in finding.held for finding in evidence.findings)

    @pytest.mark.parametrize(
        ("question", "text"),
        [
            ("Who ruled France?", "France's king was a child."),
            ("Who are the Millers?", "Ada Miller sold bread."),
            ("Who is Ada Miller?", "The Millers sold bread."),
            ("Where is the old Cafe?", "The Café is on the quay."),
        ],
    )
    def test_a_name_is_met_by_itself_its_plural_and_its_possessive(self, question: str, text: str) -> None:
        evidence = of_texts(text, "It rained.").evidence(question)
        assert any({"franc", "miller", "cafe"} & set(finding.held) for finding in evidence.findings)

    def test_a_common_word_is_met_by_its_stem_as_ever(self) -> None:
        evidence = of_texts(*self.TEXTS).evidence("How many franc did the pier cost?")
        assert any("franc" in finding.held for finding in evidence.findings)


class TestHeadings:
    def test_a_heading_is_no_answer_where_there_is_anything_else(self) -> None:
        evidence = of_texts("Rules\n\n## The ticket\n\nOne is bought at the gate.").evidence("How do I get a ticket?")
        assert [finding.text for finding in best_findings(evidence)] == ["One is bought at the gate."]

    def test_the_sentence_behind_a_heading_has_the_heading_s_terms(self) -> None:
        evidence = of_texts("Rules\n\n## The ticket\n\nOne is bought at the gate.").evidence("How do I get a ticket?")
        assert evidence.findings[-1].held == ("ticket",)
