// Package docker gives tests servers in containers, through testcontainers-go.
// Importing it makes package testenv offer containers, too.
//
// It has its own package so that nothing else needs testcontainers-go: a test of
// a public package that imported it would put its hundred modules into the
// go.sum of every user. Only the tests at the root of the module import it.
//
// The image is FENCED_TEST_REDIS_IMAGE or FENCED_TEST_POSTGRES_IMAGE; else the
// one that internal/testenv/images/build.sh made, if the engine has it; else the
// official one, pulled unless FENCED_TEST_NO_PULL is set.
//
// # Network
//
// Servers are published on chosen ports of 127.0.0.1: a port that the engine
// chooses changes with every restart. Nothing but 127.0.0.1 and the engine's
// socket is ever dialled, so the engine has to be on this machine.
//
// # What it does not do
//
// A test binary that is killed leaves its containers to Ryuk, the helper
// container of testcontainers-go. With FENCED_TEST_NO_PULL there is no Ryuk,
// since its image could not be had; remove what is left by the label
// org.testcontainers=true.
package docker
