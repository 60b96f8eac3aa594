// Package stopping ends completions at stop strings and at sequences of stop tokens, on the device, in the step that
// draws the last of their tokens.
//
// Stop strings are matched in the text that tokens make, where a string may begin and end in the middle of a token.
// [Compile] turns the strings of a request into an automaton that reads the bytes of tokens. Its states are rows of a
// table with 256 columns, the [Arena], which all requests share. A row of the sequence table has the number of its
// state; [Walk] takes it through the bytes of the token that was drawn. Sequences of tokens are matched in the same
// table: [CompileTokens] reads a token as three bytes.
//
// The automaton knows how bytes become text (see [tokenizer.Pieces]): bytes that are not UTF-8 become U+FFFD, and a run
// of byte tokens is read at its end. A stop string is found when the text that contains it is certain, which is when a
// host that decodes token by token finds it.
package stopping
