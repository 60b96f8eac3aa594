// Package stopping ends completions at stop strings and at sequences of stop tokens, on the device, in the step that
// generates the last of their tokens.
//
// Stop strings are matched in the text of the tokens. A string may begin and end in the middle of a token. [Compile]
// compiles the strings of a request to an automaton that reads the bytes of tokens. Its states are rows of a table with
// 256 columns, the [Arena], which all requests share. A row of the sequence table has the number of its state; [Walk]
// advances it by the bytes of the generated token. Sequences of tokens are matched in the same table: [CompileTokens]
// reads a token as three bytes.
//
// The automaton models how bytes become text (see [tokenizer.Pieces]): bytes that are not UTF-8 become U+FFFD, and a
// run of byte tokens is decoded at its end. A stop string is found as soon as the text that contains it is certain,
// which is when a host that decodes token by token finds it.
package stopping
