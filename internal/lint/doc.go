// Package lint has the rules of this repository that a program can check, as tests: formatting, package comments, the
// direction of imports, the length of files, names.
package lint
