// Package lint enforces the rules of this repository that a program can check, as tests: formatting, package
// comments, the direction of imports, the length of files and functions, names, and the links and tests that the
// documentation names.
package lint
