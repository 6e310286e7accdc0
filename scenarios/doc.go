// Package scenarios holds the service scenes as data, one TOML file per scenario and language
// (outbound/en.toml is the scenario "outbound" in English), embedded in the binary, and their loader.
//
// A file is the TOML form of dialogue.Scenario. Unknown keys, missing parts and references to things that do not exist
// are errors that name file, line and field.
//
//	name = "outbound"             # the folder's name
//	language = "en"               # the file's name
//	max_turns = 15                # one turn = agent + user
//
//	[[dimensions]]                # the user's hidden state; their order is the order of a state's levels
//	name = "cooperation"
//	levels = 5                    # 0..4
//	labels = ["hostile", "reluctant", "neutral", "willing", "eager"]   # optional, one per level
//
//	[[stages]]                    # the SOP, ids from 0 without gaps
//	id = 0
//	name = "identity"
//	goal = "Make sure the owner is on the line."
//
//	[agent]
//	prompt = """…"""              # system prompt, the same in every dialogue
//	[agent.protocol]
//	separator = "\n"              # white space written between fields; leave out for none
//	[[agent.protocol.fields]]     # in the order they are written
//	tag = "response"              # <response>…</response>
//	kind = "text"                 # text | int (min, max) | enum (values = ["low", …, "high"])
//	means = "reply"               # reply | private | state:<dimension> | noise | stage | status
//	max_tokens = 120              # guided mode closes the text there; leave out for no limit of its own
//
//	[user]
//	prompt = """… {profile}"""    # must end with {profile}: what stands before it is computed once for all dialogues
//	profile_text = "State: {state}. You are like this: {behaviours}."
//	join = "; "                   # between two behaviours; leave out for ", "
//	[[user.protocol.fields]]
//	…
//
//	[[behaviours]]                # the library; ids equal in all languages
//	id = "cost.hidden-fees"
//	category = "cost"
//	text = "You are sure that a fee is hidden somewhere."
//	contradicts = { trust = [4, 5] }   # states it cannot go with; leave out for none
//
// profile_text fills in {behaviours} and {state} ("cooperation 3 (willing), emotion 1 (calm), …"); instead of {state}
// it may name every dimension: {cooperation} is the level, {cooperation.label} its word. Each side needs one reply and
// one status, the user every dimension. A status is -1 failed, 0 go on, 1 success: an int from -1 to 1, or an enum of
// three words in that order. An enum that means a state or a stage has one word per level, low to high.
package scenarios
