package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"notifylab/internal/idem"
	"notifylab/internal/lab"
	"notifylab/internal/scenario"
)

// withRedis runs do with a client of a Redis that answers.
func (a *app) withRedis(ctx context.Context, do func(context.Context, idem.Client) error) error {
	client, err := idem.Dial(a.redisURL, 8)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := idem.Ping(ctx, client, a.redisURL); err != nil {
		return err
	}
	return do(ctx, client)
}

func (a *app) settingsCommand() *cobra.Command {
	var watched bool
	cmd := &cobra.Command{
		Use:     "settings [NAME]",
		Aliases: []string{"flags"},
		GroupID: groupLook,
		Short:   "Show and switch idempotency, claim-lease and provider-key",
		Long: `The switches that every worker reads for each message, from lab:flags in Redis.
What is unset is off. A worker that was given one as a flag keeps it.`,
		Example: `  notifylab settings
  notifylab settings set idempotency=on claim-lease=off
  notifylab settings claim-lease
  notifylab settings reset`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return nil
			case strings.Contains(args[0], "="):
				return usagef("to switch: notifylab settings set %s", strings.Join(args, " "))
			case len(args) > 1:
				return usagef("settings [NAME], set NAME=on|off …, or reset")
			case !slices.Contains(lab.Fields(), args[0]):
				return unknown("setting", args[0], "", append(lab.Fields(), "set", "reset"))
			}
			return nil
		},
		ValidArgsFunction: completeOnce(lab.Fields()...),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRedis(cmd.Context(), func(ctx context.Context, c idem.Client) error {
				return a.show(ctx, watched, func(ctx context.Context) (list, error) { return a.listSettings(ctx, c, args) })
			})
		},
	}
	cmd.Flags().BoolVarP(&watched, "watch", "w", false, "go on, and show changes")
	cmd.AddCommand(&cobra.Command{
		Use:     "set NAME=on|off …",
		Short:   "Switch settings",
		Example: "  notifylab settings set idempotency=on claim-lease=on",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return switchWords(args), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switches, err := parseSwitches(args)
			if err != nil {
				return err
			}
			return a.withRedis(cmd.Context(), func(ctx context.Context, c idem.Client) error {
				if err := lab.NewSettings(c, a.ns()).Set(ctx, switches); err != nil {
					return err
				}
				return a.show(ctx, false, func(ctx context.Context) (list, error) { return a.listSettings(ctx, c, nil) })
			})
		},
	}, &cobra.Command{
		Use:     "reset",
		Short:   "Switch all off",
		Example: "  notifylab settings reset",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withRedis(cmd.Context(), func(ctx context.Context, c idem.Client) error {
				if err := lab.NewSettings(c, a.ns()).Reset(ctx); err != nil {
					return err
				}
				return a.show(ctx, false, func(ctx context.Context) (list, error) { return a.listSettings(ctx, c, nil) })
			})
		},
	})
	return cmd
}

// completeOnce offers words for the first argument, and nothing after.
func completeOnce(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// switchWords lists what can follow settings set: each setting once.
func switchWords(given []string) []string {
	var words []string
	for _, name := range lab.Fields() {
		if !slices.ContainsFunc(given, func(g string) bool { return strings.HasPrefix(g, name+"=") }) {
			words = append(words, name+"=on", name+"=off")
		}
	}
	return words
}

func parseSwitches(args []string) (map[string]bool, error) {
	if len(args) == 0 {
		return nil, usagef("set what? NAME=on or NAME=off, of %s", strings.Join(lab.Fields(), ", "))
	}
	switches := map[string]bool{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if !slices.Contains(lab.Fields(), name) {
			return nil, unknown("setting", name, "", lab.Fields())
		}
		on, err := lab.ParseSwitch(value)
		if err != nil {
			return nil, usagef("%s: want %s=on or %s=off", arg, name, name)
		}
		if before, twice := switches[name]; twice && before != on {
			return nil, usagef("%s: on or off, not both", name)
		}
		switches[name] = on
	}
	return switches, nil
}

func (a *app) listSettings(ctx context.Context, c idem.Client, names []string) (list, error) {
	s, err := lab.NewSettings(c, a.ns()).Get(ctx)
	if err != nil {
		return list{}, err
	}
	l := list{columns: []string{"setting", "now", "needed on by", "needed off by"}, kind: "setting", by: "name"}
	for _, f := range []struct {
		name string
		on   bool
	}{{"idempotency", s.Idempotency}, {"claim-lease", s.ClaimLease}, {"provider-key", s.ProviderKey}} {
		if len(names) > 0 && !slices.Contains(names, f.name) {
			continue
		}
		on, off := needs(f.name)
		l.rows = append(l.rows, row{
			key:    f.name,
			cells:  []string{f.name, lab.FormatSwitch(f.on), dash(on), dash(off)},
			change: f.name + "  " + lab.FormatSwitch(f.on),
			object: map[string]any{"kind": "setting", "name": f.name, "on": f.on, "needed_on": list0(on), "needed_off": list0(off)},
		})
	}
	return l, nil
}

// needs returns the lessons that need a setting on, and off.
func needs(name string) (on, off []string) {
	for _, s := range scenario.Catalogue() {
		if s.Any {
			continue
		}
		is := map[string]bool{"idempotency": s.Settings.Idempotency, "claim-lease": s.Settings.ClaimLease, "provider-key": s.Settings.ProviderKey}[name]
		if is {
			on = append(on, s.Name)
		} else {
			off = append(off, s.Name)
		}
	}
	return on, off
}

func dash(s []string) string {
	if len(s) == 0 {
		return "-"
	}
	return strings.Join(s, ", ")
}

// list0 is s, and an empty list where there is none.
func list0(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
