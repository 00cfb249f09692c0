// Package fencedlock acquires locks in Redis that carry a fence.
package fencedlock
