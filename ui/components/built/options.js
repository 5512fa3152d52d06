// Built by make scripts: change the modules.
var t="heedmap-options";function o(){let e=window;return e.heedmapOptions??=new Map}function p({data:e}){let n=o();return n.set(e.instance,e),window.dispatchEvent(new CustomEvent(t,{detail:e.instance})),()=>{n.get(e.instance)===e&&n.delete(e.instance)}}export{p as default};
