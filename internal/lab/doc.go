// Package lab has what belongs to the lab and not to the protocol that it
// teaches, all of it in Redis: the settings that people switch while workers
// run, and the marks that let a crash point fire once and not for ever.
package lab
