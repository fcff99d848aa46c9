package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// completeChoices has the shell offer the values of every flag below cmd that has
// few.
func completeChoices(cmd *cobra.Command) {
	offer := func(f *pflag.Flag) {
		var words []string
		switch v := f.Value.(type) {
		case *choice:
			words = v.allowed
		case *choices:
			words = v.allowed
		case *onOff:
			words = []string{"on", "off"}
		default:
			return
		}
		// Its error says that the flag has a function of its own.
		_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
	cmd.LocalNonPersistentFlags().VisitAll(offer)
	cmd.PersistentFlags().VisitAll(offer)
	for _, c := range cmd.Commands() {
		completeChoices(c)
	}
}
