// Package tools says what a tool is: a value that [Define] makes of a
// [Definition], in which every field that is left out takes the default that
// fails closed.
//
// A tool is two packages. tools/x is its definition, for the host: its input
// type, of which the schema is generated that the model is given and that its
// input is held to; what the input means to the permission system; how its result
// reads. tools/x/call is what it does, for the guest in the session's container;
// it knows nothing of schemas or of the model.
//
// This package knows nothing of sessions and drivers. What a tool needs of the
// session it reaches by the interfaces in its [Context].
package tools
