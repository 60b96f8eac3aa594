"""Writes testdata/prompts/demo.parquet, the prompt set of `make demo`: python scripts/demo/make_prompts.py

Needs pyarrow. The prompts are our own. One column, `messages`, is what the model sees; `topic` shows that other columns are
passed through; two rows bring parameters of their own.
"""
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

SYSTEM = {"terse": "Answer in one sentence.", "pirate": "You are a friendly pirate. Answer as one.", "json": "Answer with JSON only."}

# topic, system (or None), user turns and assistant turns in alternation
PROMPTS = [
    ("science", None, ["Why is the sky blue?"]),
    ("science", None, ["What makes the tides rise and fall?"]),
    ("science", "terse", ["What is photosynthesis?"]),
    ("science", None, ["How do bees find their way back to the hive?"]),
    ("science", "terse", ["Why does ice float on water?"]),
    ("science", None, ["Explain gravity to a five-year-old."]),
    ("science", None, ["What is the difference between a virus and a bacterium?"]),
    ("science", None, ["Why do we see lightning before we hear thunder?"]),
    ("space", None, ["How many moons does Mars have, and what are they called?"]),
    ("space", "terse", ["What is a black hole?"]),
    ("space", None, ["What would a day on Venus feel like?"]),
    ("geography", "terse", ["What is the capital of Australia?"]),
    ("geography", None, ["Name three rivers that flow through more than one country."]),
    ("geography", None, ["Which is larger, Greenland or Argentina?"]),
    ("geography", None, ["Describe the climate of the Atacama desert."]),
    ("history", None, ["Who built the first printing press in Europe?"]),
    ("history", "terse", ["Why was the Rosetta Stone important?"]),
    ("history", None, ["What did people eat for breakfast in ancient Rome?"]),
    ("history", None, ["Tell me about the silk road in a few sentences."]),
    ("math", None, ["What is 17 + 26?"]),
    ("math", None, ["If a train travels 60 kilometres in 45 minutes, how fast is it going in km/h?"]),
    ("math", None, ["Is 91 a prime number? Explain."]),
    ("math", None, ["A shop sells pencils at 3 for 1 euro. How many pencils can I buy for 7 euros?"]),
    ("math", "terse", ["What is the sum of the angles in a triangle?"]),
    ("math", None, ["List the first ten square numbers."]),
    ("code", None, ["Write a Python function that reverses a string."]),
    ("code", None, ["Write a SQL query that counts the orders of each customer."]),
    ("code", None, ["What does this print?\n\n```python\nfor i in range(3):\n    print(i * i)\n```"]),
    ("code", None, ["Write a shell one-liner that counts the lines of all .txt files."]),
    ("code", None, ["Explain what a hash table is and when to use one."]),
    ("code", None, ["Write a Go function that returns the larger of two integers."]),
    ("code", "json", ["Describe a book with the keys title, author and year."]),
    ("code", "json", ["List three fruits with their colours."]),
    ("writing", None, ["Write a haiku about autumn leaves."]),
    ("writing", None, ["Write the first line of a detective novel set in Lisbon."]),
    ("writing", None, ["Write a short poem about a lighthouse keeper and her cat."]),
    ("writing", None, ["Write a polite email asking a neighbour to turn the music down."]),
    ("writing", None, ["Invent a name and a slogan for a bakery that opens at midnight."]),
    ("writing", None, ["Continue the story: The door of the library had been locked for a hundred years, until"]),
    ("writing", None, ["Describe the smell of rain without using the word rain."]),
    ("editing", None, ["Correct the grammar: \"She don't has no apples yesterday.\""]),
    ("editing", None, ["Make this sentence shorter: \"Due to the fact that it was raining, we made the decision to stay inside.\""]),
    ("editing", None, ["Give three synonyms for the word \"quick\"."]),
    ("editing", None, ["Turn this into a question: \"The bus leaves at nine.\""]),
    ("classify", "terse", ["Is this review positive or negative? \"The soup was cold and the waiter forgot us twice.\""]),
    ("classify", "terse", ["Is this review positive or negative? \"I would come back just for the view.\""]),
    ("classify", None, ["Sort these into animals and plants: oak, otter, fern, falcon, moss."]),
    ("extract", None, ["Which dates are in this text? \"We met on 3 May and again a week later, on 10 May.\""]),
    ("extract", None, ["Who is speaking to whom? \"Anna asked Ben whether Carla had called.\""]),
    ("summary", None, ["Summarize in one sentence: A farmer found an old map in his barn. He followed it for two days through the woods, "
                       "slept under a bridge, and at the end dug up a box. In it lay only a letter, which said: the walk was the treasure."]),
    ("summary", None, ["Summarize: The city will close the old bridge for repairs from June to September. Buses take another way, "
                       "cyclists can use the ferry free of charge, and the market moves to the north bank."]),
    ("advice", None, ["Give me three tips for sleeping better."]),
    ("advice", None, ["How do I take care of a cactus?"]),
    ("advice", None, ["What should I pack for a weekend hike in the mountains?"]),
    ("advice", None, ["How can I learn to cook on a small budget?"]),
    ("role", "pirate", ["How is the weather today?"]),
    ("role", "pirate", ["What is the best way to learn mathematics?"]),
    ("language", None, ["Translate to French: Good morning, how are you?"]),
    ("language", None, ["How do you say \"thank you\" in Japanese (日本語)?"]),
    ("language", None, ["What does the German word \"Gemütlichkeit\" mean?"]),
    ("language", None, ["Which of these emoji is a fruit: 🚗 🍎 🎈?"]),
    ("chat", None, ["Hi! My name is Mira.", "Hello Mira! How can I help you today?", "What was my name again?"]),
    ("chat", None, ["I have 5 apples.", "Great! What would you like to do with them?", "I eat two. How many are left?"]),
    ("chat", None, ["Recommend a book about the sea.", "You might like \"Moby-Dick\" by Herman Melville.", "Something shorter, please."]),
]


def messages(system, turns):
    out = [{"role": "system", "content": SYSTEM[system]}] if system else []
    return out + [{"role": ("user", "assistant")[i % 2], "content": t} for i, t in enumerate(turns)]


rows = [{"id": f"{topic}-{i:02d}", "topic": topic, "messages": messages(system, turns), "max_tokens": None, "temperature": None}
        for i, (topic, system, turns) in enumerate(PROMPTS)]
for row in rows:
    if row["topic"] == "classify":
        row["temperature"] = 0.0
    if row["id"].startswith("writing"):
        row["max_tokens"] = 96

turn = pa.struct([("role", pa.string()), ("content", pa.string())])
schema = pa.schema([("id", pa.string()), ("topic", pa.string()), ("messages", pa.list_(turn)), ("max_tokens", pa.int32()),
                    ("temperature", pa.float64())])
path = pathlib.Path(__file__).parents[2] / "testdata" / "prompts" / "demo.parquet"
path.parent.mkdir(parents=True, exist_ok=True)
pq.write_table(pa.Table.from_pylist(rows, schema), path, compression="zstd")
print(f"{len(rows)} prompts in {path}")
